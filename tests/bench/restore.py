"""How fast stores come back: restorations from changelogs, and takeovers with and without a standby's copy.

``python -m tests.bench.restore --records 5000000`` fills a changelog on a broker of its own and prints one line for
each measurement. Rates are records of 100 bytes (20 of key, 80 of value) over wall clock; processor time is that of
the restoring processes, without the broker.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.state import TaskPosition, TaskState, restore
from millrace.state.standby_copy import CopiedTask, Runs, StandbyCopy
from millrace.topology.stores import StoreKind, StoreSpec
from tests.broker import BROKER_PROPERTIES

TOPIC = "bench-kv-changelog"
STORE = StoreSpec(name="kv", kind=StoreKind.KEY_VALUE)
VALUE_BYTES = 80
BATCH = 50_000
_SCRAMBLE = 2_654_435_761


@dataclass(frozen=True)
class Took:
    """One restoration."""

    records: int
    wall_s: float
    processor_s: float


def fill(servers: str, *, records: int, tasks: int) -> int:
    """Writes the changelog of each task; returns the offset behind its last record."""
    KafkaAdmin(servers).create_missing(
        [TopicSpec(name=TOPIC, partitions=tasks, settings={"cleanup.policy": "compact"})]
    )
    draw = np.random.default_rng(1)
    end = 0
    with TaskProducer(servers, transactional_id="bench-fill") as producer:
        producer.init()
        for first in range(0, records, BATCH):
            count = min(BATCH, records - first)
            numbers = np.arange(first, first + count) * _SCRAMBLE % 2**32
            keys = [b"customer-%011d" % number for number in numbers.tolist()]
            data = draw.bytes(count * VALUE_BYTES)
            values: list[bytes | None] = [data[at : at + VALUE_BYTES] for at in range(0, len(data), VALUE_BYTES)]
            producer.begin()
            for partition in range(tasks):
                producer.send(TOPIC, keys, values, np.full(count, 1_000), partition=partition, track=True)
            producer.flush()
            end = producer.sent_end_offset(TOPIC, 0) or end
            producer.commit({}, "bench")
    return end


def restored(servers: str, directory: Path, partition: int, end: int) -> Took:
    """Opens a task's state and brings it to ``end``, from wherever it is."""
    wall, processor = time.perf_counter(), time.process_time()
    state = TaskState.open(directory, [STORE])
    progress = restore(
        state,
        STORE.name,
        TOPIC,
        partition,
        from_offset=state.position.changelogs.get(STORE.name),
        to_offset=end,
        bootstrap_servers=servers,
    )
    state.commit(TaskPosition(changelogs={STORE.name: end}))
    took = Took(progress.records, time.perf_counter() - wall, time.process_time() - processor)
    state.close()
    return took


def copy(servers: str, directory: Path, partition: int, end: int) -> None:
    """Brings a standby's copy to ``end`` or a little behind it."""
    task = CopiedTask(
        name=f"0_{partition}",
        partition=partition,
        directory=directory,
        stores=[STORE],
        changelogs={STORE.name: TOPIC},
    )
    with StandbyCopy(task, servers, lambda _: None, Runs) as standby:
        standby.reach_ends({STORE.name: end})


def show(name: str, took: list[Took], wall_s: float) -> None:
    """One line."""
    records = sum(each.records for each in took)
    processor_us = sum(each.processor_s for each in took) / max(records, 1) * 1e6
    print(  # noqa: T201 - what a benchmark is for
        f"{name:44} {records:>11,} records {wall_s:8.2f} s {records / wall_s:>11,.0f}/s "
        f"{processor_us:6.2f} us of processor a record",
        flush=True,
    )


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """A broker of its own."""
    embedded = EmbeddedBroker(directory, properties=BROKER_PROPERTIES)
    embedded.start()
    try:
        yield embedded.bootstrap_servers
    finally:
        embedded.stop()


def run(records: int, tasks: int, tail: int, directory: Path) -> None:
    """All measurements."""
    with broker(directory / "broker") as servers:
        fill(servers, records=records, tasks=tasks)
        whole = fill(servers, records=tail, tasks=tasks)
        before_tail = whole - tail - -(-tail // BATCH)
        took = restored(servers, directory / "one", 0, whole)
        show("one task", [took], took.wall_s)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(tasks, mp_context=spawn) as processes:
            list(processes.map(abs, range(tasks)))
            began = time.perf_counter()
            running = [
                processes.submit(restored, servers, directory / f"several-{number}", number, whole)
                for number in range(tasks)
            ]
            all_of_them = [each.result() for each in running]
            show(f"{tasks} tasks at once", all_of_them, time.perf_counter() - began)
        copy(servers, directory / "copy", 0, before_tail)
        took = restored(servers, directory / "copy", 0, whole)
        show("takeover of a copy (its lag, and what it read on)", [took], took.wall_s)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="entries of a task")
    parser.add_argument("--tasks", type=int, default=2, help="tasks at once")
    parser.add_argument("--tail", type=int, default=10_000, help="records that the standby's copy lacks")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millrace-restore-bench-") as directory:
        run(given.records, given.tasks, given.tail, Path(directory))


if __name__ == "__main__":
    main()
