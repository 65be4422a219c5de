"""A Kafka Streams application is taken over, goes on in Java, and is taken over again: one output all along."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.config import StreamsConfig
from millrace.driver.takeover import Takeover
from millrace.dsl import StreamsBuilder
from millrace.errors import PreflightError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.groups import live_members
from millrace.kafka.jars import STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import QUICK_TO_START, find_java
from millrace.kafka.offsets import CommittedOffset, committed_offsets
from millrace.serdes import BytesSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology
from tests.application import PREFIX_VARIABLE, topic, wait_until
from tests.integration.takeover import shop
from tests.records import Record, produce, read_topic

START = 1_790_000_000_000
WAIT_S = 120.0
Row = tuple[str, str, str | int | None, int]

# In each part first what changes the table, so that the order of the two topics does not matter.
PARTS: list[list[Row]] = [
    [
        ("users", "a", "Ann", 0),
        ("users", "b", "Bob", 0),
        ("payments", "a", 1, 1_000),
        ("payments", "b", 5, 2_000),
        ("payments", "a", 7, 3_000),
        ("payments", "c", 4, 21_000),
        ("payments", "a", 2, 17_000),
        ("payments", "a", 3, 4_000),  # late for its window and for a session
    ],
    [
        ("users", "b", None, 22_000),
        ("users", "c", "Cid", 22_000),
        ("payments", "a", 100, 5_000),  # as late: the stream time has to be taken over too
        ("payments", "b", 10, 12_000),
        ("payments", "c", 6, 24_500),  # goes on with a session and a window of before
        ("payments", "b", 8, 25_000),
        ("payments", "a", 9, 26_000),
    ],
    [
        ("users", "a", "Amy", 27_000),
        ("payments", "c", 3, 28_000),
        ("payments", "a", 11, 29_900),
        ("payments", "b", 2, 14_000),  # late
        ("payments", "b", 1, 28_500),
        ("payments", "d", 1, 40_000),
    ],
    [
        ("users", "d", "Dan", 41_000),
        ("payments", "d", 2, 43_000),
        ("payments", "a", 5, 29_000),  # late
        ("payments", "c", 5, 36_000),
        ("payments", "a", 6, 52_000),
    ],
]


def _topology() -> FrozenTopology:
    builder = StreamsBuilder()
    shop.build(builder)
    return builder.build()


def _partition_time(commit: CommittedOffset) -> int | None:
    metadata = CommitMetadata.decode(commit.metadata)
    return None if metadata is None else metadata.partition_time


def _bytes(value: str | int | None) -> bytes | None:
    if value is None:
        return None
    return shop.LONG.serialize(value) if isinstance(value, int) else shop.TEXT.serialize(value)


def _expected(topology: FrozenTopology, parts: Sequence[Sequence[Row]]) -> dict[str, list[tuple[object, object, int]]]:
    """What one run without interruption writes: the test driver, which the parity tests hold to Kafka Streams' own."""
    with TopologyTestDriver(topology, {"application.id": "model"}) as driver:
        for part in parts:
            for name, key, value, time in part:
                driver.create_input_topic(topic(name), BytesSerde(), BytesSerde()).pipe_batch(
                    [TestRecord(key.encode(), _bytes(value), START + time)]
                )
        return {
            name: [
                (record.key, record.value, record.timestamp or 0)
                for record in driver.create_output_topic(topic(name), BytesSerde(), BytesSerde()).read_records()
            ]
            for name in shop.OUTPUTS
        }


@contextmanager
def _java_application(
    bootstrap_servers: str, application_id: str, prefix: str, directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    program = Path(__file__).parent / "java" / "ShopStreams.java"
    arguments = [bootstrap_servers, application_id, prefix, str(directory / "java-state")]
    with (directory / "java.log").open("ab") as log:
        process = subprocess.Popen(
            [
                str(find_java()),
                *QUICK_TO_START,
                "-Xmx256m",
                "-cp",
                class_path(resolve_jars(STREAMS_JARS)),
                str(program),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
            assert process.poll() is None, (directory / "java.log").read_text()[-3000:]
            process.communicate(timeout=60)
            admin = KafkaAdmin(bootstrap_servers)
            wait_until(
                lambda: not live_members(admin, application_id).is_live, timeout_s=60, what="the group without members"
            )
        finally:
            process.kill()
            process.wait(10)


@pytest.mark.skipif(shutil.which("javac") is None, reason="compiles a Java program: needs a JDK")
def test_state_offsets_and_output_go_on_as_if_nothing_had_happened(
    bootstrap_servers: str, make_topic, make_application, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    for name in ("payments", "users", *shop.OUTPUTS):
        make_topic(name, retention_ms="-1")
    topology = _topology()
    application = make_application("tests.integration.takeover.shop:build", "shop")
    config = StreamsConfig.from_mapping({"application.id": application.application_id, **application.config})
    takeover = Takeover(config, topology, transactional_id=f"{application.application_id}-start")

    def output() -> dict[str, list[tuple[object, object, int]]]:
        return {
            name: [(r.key, r.value, r.timestamp) for r in read_topic(bootstrap_servers, topic(name))]
            for name in shop.OUTPUTS
        }

    sent = [0]

    def committed_offset() -> int:
        topic_partition = (topic("users"), 0)
        found = committed_offsets(KafkaAdmin(bootstrap_servers), application.application_id, [topic_partition])
        return found[topic_partition].offset if topic_partition in found else 0

    def feed(number: int) -> None:
        """Sends a part, the table first, and waits for everything that it makes."""
        for name in ("users", "payments"):
            records = [
                Record(key.encode(), _bytes(value), START + time)
                for at, key, value, time in PARTS[number]
                if at == name
            ]
            produce(bootstrap_servers, topic(name), records)
            if name == "users":
                # Otherwise payments with a smaller timestamp would come first.
                sent[0] += len(records)
                wait_until(lambda: committed_offset() == sent[0], timeout_s=WAIT_S, what=f"the table of part {number}")
        expected = _expected(topology, PARTS[: number + 1])
        wait_until(
            lambda: all(len(found) >= len(expected[name]) for name, found in output().items()),
            timeout_s=WAIT_S,
            what=f"the output of part {number}",
        )
        assert output() == expected, f"part {number}"

    with pytest.raises(PreflightError, match=r"missing|nothing to take over"):
        takeover.plan()
    with _java_application(bootstrap_servers, application.application_id, unique, tmp_path):
        feed(0)
        with pytest.raises(PreflightError, match="has live members"):
            takeover.plan()
    taken = takeover.run()
    assert [task.name for task in taken] == ["0_0", "1_0"]
    # The texts that Java has committed end without a zero byte, see millrace.kafka.offsets.
    inputs = [(topic(name), 0) for name in ("payments", "users")]
    commits = committed_offsets(KafkaAdmin(bootstrap_servers), application.application_id, inputs)
    assert {name: _partition_time(commits[name, 0]) for name, _ in inputs} == {
        topic(name): START + max(time for at, _, _, time in PARTS[0] if at == name) for name in ("payments", "users")
    }
    assert takeover.plan() == [], "what is signed is left alone"
    application.start_and_wait()
    feed(1)
    assert application.stop() == 0

    with _java_application(bootstrap_servers, application.application_id, unique, tmp_path):
        feed(2)
    assert [task.name for task in takeover.plan()] == ["0_0", "1_0"], "what Java committed is not taken for ours"
    takeover.run()
    application.start_and_wait()
    feed(3)
    assert application.stop() == 0
