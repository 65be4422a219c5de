"""How long a contestant stands still after ``kill -9`` of its process, which is started again, and of a worker.

It has recovered once it has committed everything that was in its input when it was killed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from tests.bench.contestants import Contestant, Run
from tests.bench.latency import PaymentStream
from tests.bench.meter import ContestantFailedError, GroupProgress
from tests.bench.processes import ContestantProcess, workers_of

RECORDS_PER_S = 5_000
_CAUGHT_UP_RECORDS = 3 * RECORDS_PER_S
"""Committed before something is killed: the start is over, and there is state to come back to."""
_LIMIT_S = 180.0
_INTERVAL_S = 0.02


@dataclass(frozen=True)
class RecoveryFigures:
    """Seconds from a kill until what was in the input at that moment was committed.

    Args:
        process_s: the contestant's own process and all that it started were killed, and started again at once.
        worker_s: one of its Python workers was killed; ``None`` where it has none.
    """

    process_s: float
    worker_s: float | None


def measure_recovery(contestant: Contestant, run: Run) -> RecoveryFigures:
    """Start a contestant under a stream of payments, kill a worker and then the whole, and measure both.

    Raises:
        ContestantFailedError: it ended by itself, or took longer than three minutes.
        TypeError: its progress is not that of a consumer group.
    """
    progress = contestant.progress(run)
    if not isinstance(progress, GroupProgress):
        raise TypeError(f"{contestant.name} does not commit offsets to a consumer group")
    stream = PaymentStream(
        bootstrap_servers=run.bootstrap_servers,
        topic=run.input_topic,
        partitions=run.partitions,
        records_per_s=RECORDS_PER_S,
    )
    worker_s = None
    with closing(progress):
        stream.start()
        try:
            with contestant.start(run) as process:
                _until(lambda: progress.processed() >= _CAUGHT_UP_RECORDS, process)
                if workers := workers_of(process.pid):
                    wanted, killed_at = progress.ends(), time.monotonic()
                    workers[0].send_signal(signal.SIGKILL)
                    worker_s = _reached(progress, wanted, process) - killed_at
                    before = progress.processed()
                    _until(lambda: progress.processed() >= before + _CAUGHT_UP_RECORDS, process)
                wanted, killed_at = progress.ends(), time.monotonic()
                process.kill()
            with contestant.start(run) as process:
                process_s = _reached(progress, wanted, process) - killed_at
        finally:
            stream.abandon()
    return RecoveryFigures(process_s, worker_s)


def _reached(progress: GroupProgress, wanted: Mapping[int, int], process: ContestantProcess) -> float:
    """Wait until everything up to these offsets by partition is committed: when that was, of the monotonic clock."""

    def is_committed() -> bool:
        positions = progress.positions()
        return all(positions[partition] >= end for partition, end in wanted.items())

    _until(is_committed, process)
    return time.monotonic()


def _until(reached: Callable[[], bool], process: ContestantProcess) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not reached():
        process.check_alive()
        if time.monotonic() > deadline:
            raise ContestantFailedError(f"it has not committed what there was within {_LIMIT_S:.0f} s")
        time.sleep(_INTERVAL_S)
