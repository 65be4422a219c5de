"""Takes the progress of restores from workers while their Spark task still runs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import orjson
import structlog

_log = structlog.get_logger(__name__)

_LONGEST_DATAGRAM = 4096


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """How far the restore of one store of a task is.

    Args:
        task: name of the task.
        store: name of the store.
        records: changelog records applied so far.
        remaining: offsets up to the end.
        rate: records per second.
    """

    task: str
    store: str
    records: int
    remaining: int
    rate: float


class RestoreTotals:
    """What the reports of all stores of a task add up to."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, RestoreReport]] = {}

    def add(self, report: RestoreReport) -> tuple[int, float]:
        """Takes a report; gives what remains for its task, and at which rate, records per second."""
        stores = self._reports.setdefault(report.task, {})
        stores[report.store] = report
        unfinished = [each for each in stores.values() if each.remaining]
        return sum(each.remaining for each in unfinished), sum(each.rate for each in unfinished)

    def clear(self) -> None:
        """Forget everything: the tasks are opened anew, or have been."""
        self._reports.clear()


class RestoreReports:
    """Listens for the workers' datagrams on a port of its own.

    Args:
        host: the address that workers reach the driver at.
        take: called with each report, from the listening thread.
    """

    def __init__(self, host: str, take: Callable[[RestoreReport], None]) -> None:
        self._take = take
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._thread = threading.Thread(target=self._listen, name="restore-reports", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``host:port`` to send reports to."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Stops listening. May be called more than once."""
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
                self._take(RestoreReport(**orjson.loads(data)))
            except (orjson.JSONDecodeError, TypeError) as error:
                _log.warning("not a restore report", problem=str(error), length=len(data))
