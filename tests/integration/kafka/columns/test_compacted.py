"""What compaction has removed leaves gaps, and positions pass them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests.integration.kafka.columns.reading import READERS, opened
from tests.records import ReadRecord, Record, produce, read_topic
from tests.waiting import eventually

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def test_a_compacted_log_is_read_over_its_gaps(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties={"log.cleaner.backoff.ms": "200"}) as broker:
        servers = broker.bootstrap_servers
        KafkaAdmin(servers).create_missing([TopicSpec(name="compacted", partitions=1, settings=SETTINGS)])
        for turn in range(20):
            produce(servers, "compacted", [Record(b"k%d" % key, b"%d" % turn, partition=0) for key in range(5)])
        eventually(compacted_below(servers, 20), True, limit_s=120)
        left = read_topic(servers, "compacted")
        assert len(left) < left[-1].offset
        for kind in READERS:
            reading = opened(kind, servers)
            try:
                # An offset that was compacted away is no error.
                reading.reader.assign({("compacted", 0): 1})
                reading.until_ends({("compacted", 0): left[-1].offset + 1})
            finally:
                reading.reader.close()
            got = reading.got["compacted", 0]
            assert triples(got.offsets, got.keys, got.values) == [
                (record.offset, record.key, record.value) for record in left if record.offset >= 1
            ]


def triples(*columns: list[int] | list[bytes | None]) -> list[tuple[object, ...]]:
    return list(zip(*columns, strict=True))


def compacted_below(servers: str, most: int) -> Callable[[], bool]:
    """Whether few records are left: each question adds one, so that a segment ends and can be compacted."""

    def ask() -> bool:
        produce(servers, "compacted", [Record(b"last", b"", partition=0)])
        left: list[ReadRecord] = read_topic(servers, "compacted")
        return len(left) < most

    return ask
