"""Watches a contestant from outside and turns what it saw into figures, by the same rules for all of them.

A contestant's progress is what it has committed: the offsets of its consumer group, or the batches that Spark has
written to its commit log. Its first output is the moment at which a reader of committed records could see a record.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace.kafka.clients import client_log

STEADY_FROM = 0.2
STEADY_TO = 0.9
LEAST_COMMITS = 3
LEAST_SPAN = 0.4
"""Share of the input between the first and the last of them: the tasks of one large batch commit one after the other,
and a rate from these alone would be too high."""
INTERVAL_S = 0.1
_ANSWER_LIMIT_S = 20.0


class ContestantFailedError(RuntimeError):
    """A contestant ended, or did not get to the end of its input in time."""


@dataclass(frozen=True)
class Sample:
    """What was committed at one moment.

    Args:
        at_s: seconds since the contestant's process was started.
        processed: input records committed, over all partitions.
        visible: offsets of the output that a read_committed consumer can get, over all partitions.
    """

    at_s: float
    processed: int
    visible: int


@dataclass(frozen=True)
class Figures:
    """The figures of one run.

    Args:
        records: of the input.
        first_output_s: from the start of the process to the first committed output.
        steady_records_per_s: between the first and the last commit inside 20 % to 90 % of the input; ``None`` where
            there are fewer than three, or they span less than 40 % of the input: no steady state was seen.
        whole_run_s: from the start of the process to the commit of the whole input.
        memory_bytes: most memory that all its processes took at one moment; ``None`` where it was not looked at.
        worker_memory_bytes: most memory of one Python worker; ``None`` where it has none.
    """

    records: int
    first_output_s: float
    steady_records_per_s: float | None
    whole_run_s: float
    memory_bytes: int | None = None
    worker_memory_bytes: int | None = None

    @property
    def whole_run_records_per_s(self) -> float:
        """Records per second with the start included."""
        return self.records / self.whole_run_s


class ProgressSource(Protocol):
    """Where a contestant's progress is read."""

    def processed(self) -> int:
        """Input records that the contestant has committed, over all partitions."""

    def close(self) -> None:
        """End; nothing may be asked any more."""


class GroupProgress:
    """Progress of a contestant that commits offsets to a consumer group; its input begins at offset 0.

    It asks as a consumer that never joins the group. The admin client's request for a group's offsets is no choice:
    librdkafka ends the process on a broker that has just become, or is no longer, the group's coordinator
    (librdkafka issue 5040).
    """

    def __init__(self, bootstrap_servers: str, *, group: str, topic: str, partitions: int) -> None:
        self._asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._last = dict.fromkeys(range(partitions), 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                # With read_committed the answer would wait for the end of open transactions.
                "isolation.level": "read_uncommitted",
            },
            logger=client_log,
        )

    def processed(self) -> int:
        """Sum of the group's committed offsets; those of open transactions do not count."""
        return sum(self.positions().values())

    def positions(self) -> dict[int, int]:
        """The group's committed offsets by partition, as :meth:`processed` counts them."""
        try:
            committed = self._consumer.committed(self._asked, timeout=_ANSWER_LIMIT_S)
        except KafkaException as error:
            # The first group of a new broker: its coordinator is just being chosen, or loads.
            if error.args[0].code() not in _NO_COORDINATOR_YET:
                raise
        else:
            self._last = {each.partition: max(each.offset, 0) for each in committed}
        return dict(self._last)

    def ends(self) -> dict[int, int]:
        """Where the input ends now, by partition."""
        ends = (self._consumer.get_watermark_offsets(each, timeout=_ANSWER_LIMIT_S) for each in self._asked)
        return {each.partition: high for each, (_, high) in zip(self._asked, ends, strict=True)}

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


_NO_COORDINATOR_YET = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)


class SparkProgress:
    """Progress of a Spark query, by its checkpoint directory: a batch counts once its commit is in the log."""

    def __init__(self, checkpoint: Path, *, topic: str) -> None:
        self._checkpoint = checkpoint
        self._topic = topic
        self._last_batch = -1
        self._last = 0

    def processed(self) -> int:
        """End offsets of the newest committed batch, summed."""
        newest = max((int(file.name) for file in _numbered(self._checkpoint / "commits")), default=-1)
        if newest > self._last_batch:
            ends = _offsets_of(self._checkpoint / "offsets" / str(newest), self._topic)
            self._last = sum(ends)
            self._last_batch = newest
        return self._last

    def close(self) -> None:
        """Nothing is open."""


def _numbered(directory: Path) -> list[Path]:
    return [file for file in directory.iterdir() if file.name.isdigit()] if directory.is_dir() else []


def _offsets_of(file: Path, topic: str) -> list[int]:
    # Line 1 is the version, line 2 the batch's metadata, then one line for each source.
    sources = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[2:]]
    return [offset for source in sources for offset in source[topic].values()]


def watch(
    progress: ProgressSource,
    visible: Callable[[], int],
    *,
    records: int,
    started_at: float,
    check_alive: Callable[[], None],
    limit_s: float,
    on_sample: Callable[[Sample], None] = lambda _sample: None,
) -> list[Sample]:
    """Sample a contestant until it has committed the whole input.

    Args:
        progress: where its progress is read.
        visible: tells how much of its output can be read.
        records: of the input.
        started_at: ``time.monotonic()`` when the process was started.
        check_alive: raises if the contestant has ended.
        limit_s: the longest time from the start, seconds.
        on_sample: gets each sample.

    Raises:
        ContestantFailedError: the contestant ended before, or needs longer than ``limit_s``.
    """
    samples: list[Sample] = []
    processed = 0
    while processed < records:
        check_alive()
        processed = progress.processed()
        sample = Sample(time.monotonic() - started_at, processed, visible())
        samples.append(sample)
        on_sample(sample)
        if sample.at_s > limit_s:
            raise ContestantFailedError(f"{processed} of {records} records were committed within {limit_s:.0f} s")
        rest_s = INTERVAL_S - (time.monotonic() - started_at - sample.at_s)
        time.sleep(max(rest_s, 0.0))
    return samples


def figures_of(samples: Sequence[Sample], *, records: int) -> Figures:
    """The figures of one run.

    Args:
        samples: in order, the last one with the whole input committed.
        records: of the input.

    Raises:
        ContestantFailedError: the samples do not reach the end of the input, or no output was visible.
    """
    end = next((sample for sample in samples if sample.processed >= records), None)
    if end is None:
        raise ContestantFailedError(f"the samples end before the {records} records of the input")
    first = next((sample for sample in samples if sample.visible > 0), None)
    if first is None:
        raise ContestantFailedError("the whole input was committed and no output is visible")
    return Figures(records, first.at_s, _steady_records_per_s(samples, records=records), end.at_s)


def _steady_records_per_s(samples: Sequence[Sample], *, records: int) -> float | None:
    # Only moments at which something was committed count. Between them nothing is known, and the last commit of all
    # may come a whole commit interval after the last record.
    commits = [
        sample
        for before, sample in pairwise(samples)
        if sample.processed > before.processed and STEADY_FROM <= sample.processed / records <= STEADY_TO
    ]
    if len(commits) < LEAST_COMMITS:
        return None
    begin, until = commits[0], commits[-1]
    if until.processed - begin.processed < LEAST_SPAN * records:
        return None
    return (until.processed - begin.processed) / (until.at_s - begin.at_s)
