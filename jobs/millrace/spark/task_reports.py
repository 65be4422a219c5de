"""Reports of workers to the driver beside the results of Spark tasks, as datagrams: losing one does little harm.

While its Spark task still runs, a task tells how far its restore is; and one whose transaction was aborted or fenced
raises, so that no result can tell of it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import orjson
import structlog

from millrace.metrics import TransactionOutcome
from millrace.spark.restore_reports import RestoreReport
from millrace.state.replay import RestoreProgress

_log = structlog.get_logger(__name__)

_LONGEST_DATAGRAM = 4096
_REPORT_INTERVAL_S = 0.2
"""Least time between two reports of one store, but for the first and the last one."""


@dataclass(frozen=True, kw_only=True)
class LostTransaction:
    """A transaction of a task that was not committed.

    Args:
        task: name of the task.
        outcome: how it ended instead.
    """

    task: str
    outcome: TransactionOutcome


Report = RestoreReport | LostTransaction


class TaskReporter:
    """A reporter of one task to the driver.

    Args:
        address: ``host:port`` of the driver's :class:`TaskReports`; empty where no process listens.
        task: name of the task.
    """

    def __init__(self, address: str, task: str) -> None:
        self._address = address
        self._task = task
        self._reported_at: dict[str, float] = {}

    def restoring(self, progress: RestoreProgress) -> None:
        """Reports the progress of a store's restoration."""
        now = time.monotonic()
        between = progress.records and progress.remaining
        if between and now - self._reported_at.get(progress.store, 0.0) < _REPORT_INTERVAL_S:
            return
        self._reported_at[progress.store] = now
        self._report(
            RestoreReport(
                task=self._task,
                store=progress.store,
                records=progress.records,
                remaining=progress.remaining,
                rate=progress.records_per_s,
            )
        )

    def lost_transaction(self, outcome: TransactionOutcome) -> None:
        """Reports that a transaction was not committed."""
        self._report(LostTransaction(task=self._task, outcome=outcome))

    def _report(self, report: Report) -> None:
        if not self._address:
            return
        host, _, port = self._address.rpartition(":")
        try:
            family, address = _resolved(host, int(port))
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                sender.sendto(orjson.dumps(asdict(report)), address)
        except OSError as error:
            # The task does its work whether or not the driver hears of it.
            _log.warning("a report did not reach the driver", address=self._address, problem=str(error))


class TaskReports:
    """A receiver of the workers' datagrams, on a port of its own.

    Args:
        bind: the address that is listened on.
        host: the name or address at which workers reach the driver.
        take_restore: called with each report of a restore, from the listening thread.
        take_lost_transaction: the same for transactions.
    """

    def __init__(
        self,
        bind: str,
        host: str,
        *,
        take_restore: Callable[[RestoreReport], None],
        take_lost_transaction: Callable[[LostTransaction], None],
    ) -> None:
        self._take_restore = take_restore
        self._take_lost_transaction = take_lost_transaction
        self._host = host
        family, address = _resolved(bind, 0)
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._thread = threading.Thread(target=self._listen, name="task-reports", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``host:port`` to which reports are sent."""
        return f"{self._host}:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        """Stops listening. Idempotent."""
        with contextlib.suppress(OSError):
            # A closed socket alone does not wake a thread that waits on it.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                data = self._socket.recv(_LONGEST_DATAGRAM)
            except OSError:
                return
            if not data:
                return
            try:
                self._take(orjson.loads(data))
            except (ValueError, TypeError) as error:
                _log.warning("not a report of a task", problem=str(error), length=len(data))

    def _take(self, report: dict[str, object]) -> None:
        if "outcome" in report:
            outcome = TransactionOutcome(str(report.pop("outcome")))
            self._take_lost_transaction(LostTransaction(outcome=outcome, **report))  # type: ignore[arg-type]
        else:
            self._take_restore(RestoreReport(**report))  # type: ignore[arg-type]


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))
