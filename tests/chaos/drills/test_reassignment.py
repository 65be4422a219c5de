"""Case B01: all tasks move at once, between workers and between instances, there and back, under both guarantees."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import Application, wait_until
from tests.records import Record, produce, read_topic

PARTITIONS = 6
RECORDS = 10_000
CHUNK = 250
GUARANTEES = ("exactly_once_v2", "at_least_once")
COMMITS_RESUME_WITHIN_S = 30.0

Sequences = dict[bytes, list[int]]


class Instances:
    """One application with two hosts to run on, of which one has it at a time.

    Args:
        broker: the broker.
        prefix: of its topics and name.
        guarantee: its processing guarantee.
        directory: where the hosts are.
        points: directory of crash points, which marks the processes.
    """

    def __init__(self, broker: EmbeddedBroker, prefix: str, guarantee: str, directory: Path, points: Path) -> None:
        self.prefix = prefix
        self._broker = broker
        self._points = points
        self._directory = directory
        self.source = f"{prefix}-sequences"
        names = [self.source, f"{prefix}-sequences-copy", f"{prefix}-sequences-counts"]
        KafkaAdmin(broker.bootstrap_servers).create_missing(
            [TopicSpec(name=name, partitions=PARTITIONS) for name in names]
        )
        self.here, self.there = (self._instance(host, guarantee) for host in ("here", "there"))

    def kill_workers(self) -> None:
        """Moves every task at once to other workers, and waits until commits have resumed."""
        before = self.here.committed()
        for pid in self.here.workers():
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        wait_until(
            lambda: self._moved_on(before),
            timeout_s=COMMITS_RESUME_WITHIN_S,
            is_claim=True,
            what="commits of every partition",
        )
        assert time.monotonic() - begin < COMMITS_RESUME_WITHIN_S

    def copies(self) -> Sequences:
        """The numbers of each input partition in the order of the output."""
        found: Sequences = defaultdict(list)
        for record in read_topic(self._broker.bootstrap_servers, f"{self.prefix}-sequences-copy", timeout_s=90):
            found[record.key or b""].append(int(record.value or b""))
        return found

    def counts(self) -> Sequences:
        """The running counts of each input partition."""
        found: Sequences = defaultdict(list)
        for record in read_topic(self._broker.bootstrap_servers, f"{self.prefix}-sequences-counts", timeout_s=90):
            found[record.key or b""].append(struct.unpack(">q", record.value or b"")[0])
        return found

    def ever_committed(self) -> Mapping[bytes, set[int]]:
        """Every offset that was ever committed of an input partition, from the broker's own topic."""
        found: dict[bytes, set[int]] = defaultdict(lambda: {0})
        for record in read_topic(self._broker.bootstrap_servers, "__consumer_offsets", timeout_s=90):
            committed = _committed_partition(record.key or b"")
            if (
                record.value is not None
                and committed is not None
                and committed[:2] == (self.here.application_id, self.source)
            ):
                found[b"%d" % committed[2]].add(struct.unpack_from(">q", record.value, 2)[0])
        return found

    def close(self) -> None:
        self.here.kill()
        self.there.kill()

    def _moved_on(self, before: Mapping[tuple[str, int], int]) -> bool:
        now = self.here.committed()
        return all(
            now.get(topic_partition, 0) > offset for topic_partition, offset in before.items() if offset < RECORDS
        )

    def _instance(self, host: str, guarantee: str) -> Application:
        directory = self._directory / f"{guarantee}-{host}"
        directory.mkdir()
        return Application(
            self._broker.bootstrap_servers,
            f"{self.prefix}-app",
            "tests.chaos.topologies:build_sequences",
            directory,
            prefix=self.prefix,
            config={"processing.guarantee": guarantee},
            environment={DIRECTORY_VARIABLE: str(self._points)},
        )


@pytest.fixture
def both(broker: EmbeddedBroker, unique: str, tmp_path: Path, points: Path) -> Iterator[dict[str, Instances]]:
    """The application under each guarantee, side by side since each start takes long."""
    made = {
        guarantee: Instances(broker, f"{unique}-{number}", guarantee, tmp_path, points)
        for number, guarantee in enumerate(GUARANTEES)
    }
    yield made
    for each in made.values():
        each.close()


@pytest.mark.long("hosts that join and leave for minutes; tests/chaos/test_exactly_once.py moves tasks, too")
def test_b01_no_record_is_skipped_or_early_when_all_tasks_move(
    broker: EmbeddedBroker, both: dict[str, Instances]
) -> None:
    def each(action: Callable[[Instances], object]) -> None:
        for instances in both.values():
            action(instances)

    each(lambda it: it.here.start())
    each(lambda it: it.here.wait_until_running())
    sender = threading.Thread(target=_send, args=(broker.bootstrap_servers, list(both.values())), daemon=True)
    sender.start()
    each(lambda it: wait_until(it.here.committed, timeout_s=60, what="first commits"))
    each(Instances.kill_workers)
    each(lambda it: it.there.start())
    each(lambda it: it.there.wait_until_running())
    each(lambda it: it.there.kill())
    each(lambda it: it.here.wait_for_exit())  # fenced, or ended with its session
    each(lambda it: it.here.start())
    each(lambda it: it.here.wait_until_running())
    each(Instances.kill_workers)
    sender.join(120)
    assert not sender.is_alive()
    each(lambda it: it.here.wait_until_caught_up(timeout_s=120))
    each(lambda it: it.here.stop())
    wanted = list(range(RECORDS))
    exact = both["exactly_once_v2"]
    assert exact.copies() == {b"%d" % partition: wanted for partition in range(PARTITIONS)}
    assert exact.counts() == {b"%d" % partition: [n + 1 for n in wanted] for partition in range(PARTITIONS)}
    repeated = both["at_least_once"]
    committed = repeated.ever_committed()
    for partition, numbers in repeated.copies().items():
        _check_goes_back_to_commits_only(numbers, committed[partition])
        assert set(numbers) == set(wanted)


def _check_goes_back_to_commits_only(numbers: list[int], committed: set[int]) -> None:
    """No gap; what is not the next number is one that was the committed offset at some time, and not a later one."""
    following = 0
    for number in numbers:
        if number != following:
            assert number < following, f"{following} is missing before {number}"
            assert number in committed, f"{following}: back to {number}, which was never committed"
        following = number + 1


def _send(bootstrap_servers: str, instances: list[Instances]) -> None:
    """The numbers of each partition, 0 to 9,999; an input record's offset is its number."""
    for first in range(0, RECORDS, CHUNK):
        for each in instances:
            produce(
                bootstrap_servers,
                each.source,
                [
                    Record(b"%d" % partition, b"%d" % number, timestamp=1 + number, partition=partition)
                    for number in range(first, first + CHUNK)
                    for partition in range(PARTITIONS)
                ],
            )
        time.sleep(2.0)  # the load is spread over the moves


def _committed_partition(key: bytes) -> tuple[str, str, int] | None:
    """Group, topic and partition of a key of ``__consumer_offsets``; ``None`` for keys of other records."""
    (version,) = struct.unpack_from(">h", key)
    if version > 1:
        return None
    texts, at = [], 2
    for _ in range(2):
        (length,) = struct.unpack_from(">h", key, at)
        texts.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return texts[0], texts[1], struct.unpack_from(">i", key, at)[0]
