"""The reader of global topics on the real broker: markers, ends in the middle of a log, records that are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, StreamsBuilder
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import end_offsets
from millrace.serdes import StringSerde
from millrace.task.global_copy import GlobalCopy
from millrace.task.spec import GlobalStoreSpec
from tests.records import Record, produce, produce_transaction

TEXT = StringSerde()
LIMIT_S = 30.0


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic("global", partitions=2)


@pytest.fixture
def open_copy(bootstrap_servers: str, topic: str, tmp_path: Path) -> Iterator[Callable[[], GlobalCopy]]:
    made: list[GlobalCopy] = []

    def make() -> GlobalCopy:
        builder = StreamsBuilder()
        builder.global_table(topic, Consumed.with_(TEXT, TEXT), Materialized.as_("rows"))
        builder.stream("in").to("out")
        (part,) = builder.build().global_stores
        settings = {"application.id": topic, "bootstrap.servers": bootstrap_servers, "state.dir": str(tmp_path)}
        description = KafkaAdmin(bootstrap_servers).describe_topics([topic])[topic]
        spec = GlobalStoreSpec(part=part, topic_id=description.topic_id, partitions=description.partitions)
        made.append(GlobalCopy(spec, StreamsConfig.from_mapping(settings)))
        return made[-1]

    yield make
    for copy in made:
        copy.close()


def rows(copy: GlobalCopy) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in copy.store.all()}


def ends_of(bootstrap_servers: str, topic: str) -> dict[tuple[str, int], int]:
    return end_offsets(KafkaAdmin(bootstrap_servers), [(topic, 0), (topic, 1)])


def test_a_topic_that_ends_in_the_marker_of_an_aborted_transaction_is_read_to_its_end(
    bootstrap_servers: str, topic: str, open_copy: Callable[[], GlobalCopy]
) -> None:
    """Case S03."""

    def send(*records: Record, commit: bool) -> None:
        produce_transaction(bootstrap_servers, topic, records, transactional_id=f"{topic}-in", commit=commit)

    send(Record(b"a", b"1", 1, partition=0), commit=True)
    send(Record(b"a", b"2", 2, partition=0), Record(b"b", b"2", 2, partition=0), commit=False)
    ends = ends_of(bootstrap_servers, topic)
    assert ends == {(topic, 0): 5, (topic, 1): 0}
    copy = open_copy()
    began = time.monotonic()
    copy.catch_up(ends)
    assert time.monotonic() - began < LIMIT_S
    assert rows(copy) == {b"a": b"1"}
    assert copy.position.inputs == ends
    send(Record(b"b", b"3", 3, partition=0), commit=True)
    began = time.monotonic()
    copy.catch_up(ends_of(bootstrap_servers, topic))
    assert rows(copy) == {b"a": b"1", b"b": b"3"}
    assert time.monotonic() - began < LIMIT_S


def test_records_behind_the_ends_wait_for_later_ends(
    bootstrap_servers: str, topic: str, open_copy: Callable[[], GlobalCopy]
) -> None:
    produce(
        bootstrap_servers, topic, [Record(f"k{n % 2}".encode(), f"{n}".encode(), n, partition=n % 2) for n in range(20)]
    )
    copy = open_copy()
    copy.catch_up({(topic, 0): 3, (topic, 1): 1})
    assert rows(copy) == {b"k0": b"4", b"k1": b"1"}
    copy.catch_up({(topic, 0): 3, (topic, 1): 10})
    assert rows(copy) == {b"k0": b"4", b"k1": b"19"}
    copy.close()
    again = open_copy()
    again.catch_up(ends_of(bootstrap_servers, topic))
    assert rows(again) == {b"k0": b"18", b"k1": b"19"}


def test_a_copy_whose_next_records_were_deleted_is_built_anew(
    bootstrap_servers: str, topic: str, open_copy: Callable[[], GlobalCopy]
) -> None:
    produce(bootstrap_servers, topic, [Record(f"k{n}".encode(), b"x", n, partition=0) for n in range(6)])
    copy = open_copy()
    copy.catch_up({(topic, 0): 2, (topic, 1): 0})
    copy.close()
    KafkaAdmin(bootstrap_servers).delete_records({(topic, 0): 4})
    again = open_copy()
    assert rows(again) == {b"k0": b"x", b"k1": b"x"}
    again.catch_up(ends_of(bootstrap_servers, topic))
    assert rows(again) == {b"k4": b"x", b"k5": b"x"}
