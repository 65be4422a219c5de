"""What becomes of a windowed operator's stream time when the topology around it changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.kafka.record_limits import Refusal
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, StringSerde, TimeWindowedSerde
from millrace.state import TaskState
from millrace.task.collector import OutputBatch
from millrace.task.engine import Engine
from millrace.task.input import InputBatch

TEXT = StringSerde()
WINDOW_MS = 1_000


class _Nowhere:
    def send(self, batch: OutputBatch) -> None:
        del batch

    def refused(self, batch: OutputBatch) -> list[Refusal]:
        del batch
        return []

    def expect_dead_letter_records(self, _topics: Iterable[str], /) -> None:
        pass

    def partition_count(self, _topic: str, /) -> int:
        return 1


def engine_of(*, filters: int, stream_times: dict[str, int]) -> Engine:
    """Counts in the store ``counts`` behind some filters, which give the counting operator another number."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    for _ in range(filters):
        stream = stream.filter(lambda key, value: True)
    (
        stream.group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(WINDOW_MS))
        .count(Materialized.as_("counts"))
        .to_stream()
        .to("out", Produced.with_(TimeWindowedSerde(TEXT, WINDOW_MS), LongSerde()))
    )
    return _engine(builder, stream_times)


def cogrouping_engine_of(*, stream_times: dict[str, int]) -> Engine:
    """Cogroups the topics ``in`` and ``other`` in the store ``counts``."""
    builder = StreamsBuilder()
    one, other = (builder.stream(topic, Consumed.with_(TEXT, TEXT)).group_by_key() for topic in ("in", "other"))
    cogrouped = one.cogroup(lambda key, value, aggregate: aggregate + 1)
    cogrouped.cogroup(other, lambda key, value, aggregate: aggregate + 1).windowed_by(
        TimeWindows.of_size_with_no_grace(WINDOW_MS)
    ).aggregate(int, Materialized.as_("counts").with_key_serde(TEXT).with_value_serde(LongSerde()))
    return _engine(builder, stream_times)


def _engine(builder: StreamsBuilder, stream_times: dict[str, int]) -> Engine:
    config = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "nowhere:1"})
    (sub_topology,) = builder.build().sub_topologies
    state = TaskState.open(None, sub_topology.stores)
    return Engine(sub_topology, config, state, task="0_0", partition=0, stream_times=stream_times, partition_times={})


def process(engine: Engine, timestamp: int, topic: str = "in") -> int:
    """Processes one record; how many were dropped as late."""
    one = np.zeros(1, dtype=np.int64)
    engine.process(
        InputBatch(
            topics=(topic,),
            topic=one,
            partition=one,
            offset=one,
            timestamp=one + timestamp,
            keys=pa.array([b"k"], type=pa.binary()),
            values=pa.array([b"v"], type=pa.binary()),
            headers=None,
        ),
        _Nowhere(),
    )
    return engine.failures.dropped[DropReason.LATE]


def test_stream_time_belongs_to_the_store_so_a_record_stays_late_in_a_changed_topology() -> None:
    before = engine_of(filters=0, stream_times={})
    assert process(before, 10_500) == 0
    after = engine_of(filters=2, stream_times=dict(before.context.stream_times))
    assert process(after, 9_900) == 1
    assert before.context.stream_times == after.context.stream_times == {"counts": 10_500}


def test_each_input_of_a_cogroup_has_its_stream_time_also_after_a_restart() -> None:
    before = cogrouping_engine_of(stream_times={})
    assert process(before, 10_500) == 0
    assert process(before, 2_500, "other") == 0
    after = cogrouping_engine_of(stream_times=dict(before.context.stream_times))
    assert process(after, 2_000, "other") == 0
    assert process(after, 1_999, "other") == 1
    assert process(after, 9_900) == 1
    assert after.context.stream_times == {"counts": 10_500, "counts/1": 2_500}
