from __future__ import annotations

from collections.abc import Callable

import numpy as np

from millrace.config import StreamsConfig
from millrace.insight.export.lag import records_behind
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets, lag
from millrace.kafka.producer import TaskProducer


def test_markers_aborted_records_and_open_transactions_are_no_lag(
    bootstrap_servers: str, make_topic: Callable[..., str], unique: str
) -> None:
    """Offsets alone say that a group that has read everything is behind."""
    read, behind, never = make_topic("read"), make_topic("behind"), make_topic("never")
    config = StreamsConfig.from_mapping({"application.id": unique, "bootstrap.servers": bootstrap_servers})
    admin = KafkaAdmin(bootstrap_servers, timeout_s=30.0)

    def send(producer: TaskProducer, topic: str, count: int) -> None:
        keys = [f"k{row}".encode() for row in range(count)]
        producer.send(topic, keys, keys, np.arange(count, dtype=np.int64), partition=0)

    with (
        TaskProducer(bootstrap_servers, transactional_id=f"{unique}-writer") as writer,
        TaskProducer(bootstrap_servers, transactional_id=f"{unique}-hung") as hung,
    ):
        writer.init()
        writer.begin()
        for topic in (read, behind, never):
            send(writer, topic, 3)
        # As an application commits that has read three records, and one that has read one.
        writer.commit({(read, 0): (3, ""), (behind, 0): (1, "")}, unique)
        writer.begin()
        send(writer, read, 2)
        send(writer, behind, 2)
        writer.flush()
        writer.abort()
        hung.init()
        hung.begin()
        send(hung, read, 5)
        hung.flush()

        topic_partitions = [(topic, 0) for topic in (read, behind, never)]
        lags = records_behind(admin, config, topic_partitions)
        assert lags == {(read, 0): 0, (behind, 0): 2}
        committed, ends = (
            committed_offsets(admin, unique, topic_partitions, stable=False),
            end_offsets(admin, topic_partitions),
        )
        assert (lag(committed[read, 0], ends[read, 0]) or 0) >= 1
        assert (lag(committed[behind, 0], ends[behind, 0]) or 0) > 2
        hung.abort()
