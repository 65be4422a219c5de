"""The supervisor of queries: starts them, detects failed ones, and restarts these with backoff. Used by one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from millrace.driver.query import Query, cause_of_death, is_alive
from millrace.driver.reasons import reason_of
from millrace.driver.restarts import RestartHistory, RestartPolicy, is_broker_away, next_restart, permanent_cause
from millrace.errors import MillraceError, OperationError

log = structlog.get_logger(__name__)


_UNTOUCHED = RestartHistory()


class QuerySupervisor:
    """A supervisor that starts ``queries`` and keeps them running, each with its own backoff.

    A restart begins at the group's committed offsets (:meth:`Query.start`), so nothing is lost or processed twice.

    Args:
        queries: not started.
        policy: when to start a failed query again.
        stop_timeout_s: longest wait for one query to stop, seconds.
        on_restart: called with ``(sub-topology, restarts without progress)``.
        clock: a monotonic clock, seconds.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        policy: RestartPolicy,
        *,
        stop_timeout_s: float,
        on_restart: Callable[[int, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries = sorted(queries, key=lambda query: query.sub_topology)
        self._policy = policy
        self._stop_timeout_s = stop_timeout_s
        self._on_restart = on_restart
        self._clock = clock
        self._histories: dict[str, RestartHistory] = {}
        self._due: dict[str, float] = {}
        self._causes: dict[str, str] = {}

    def start(self) -> None:
        """Starts all queries in parallel, since each may have to restore; one that cannot start counts as failed.

        Raises:
            MillraceError: a restart would only repeat the failure.
        """
        with ThreadPoolExecutor(max_workers=len(self._queries), thread_name_prefix="start-query") as pool:
            errors = list(pool.map(_start, self._queries))
        for query, error in zip(self._queries, errors, strict=True):
            self._take(query, error)

    def check(self) -> None:
        """Detects failed queries, and starts those whose backoff is over.

        Raises:
            MillraceError: a query failed of something that a restart would repeat, or its attempts are used up.
        """
        for query in self._queries:
            due = self._due.get(query.name)
            if due is None:
                if not is_alive(query):
                    self._plan_restart(query, cause_of_death(query))
                elif query.progress.batches > self._histories.get(query.name, _UNTOUCHED).batches:
                    self._on_restart(query.sub_topology, 0)
            elif self._clock() >= due:
                self._try_start(query)

    def replace(self, query: Query, error: Exception) -> None:
        """Stops a query that failed outside a batch, and treats it as a failed one.

        Raises:
            MillraceError: as :meth:`check`.
        """
        if query.name not in self._due:
            query.stop(self._stop_timeout_s)
            self._plan_restart(query, error)

    @property
    def all_active(self) -> bool:
        """Whether no query waits for a restart, all tasks have a process, and none is being restored."""
        return (
            not self._due
            and not self.waits_for
            and not any(any(query.progress.restore_remaining.values()) for query in self._queries)
        )

    @property
    def waits_for(self) -> str:
        """The reason why no process runs some tasks at the moment; empty if all have one."""
        return next((query.progress.waits_for for query in self._queries if query.progress.waits_for), "")

    @property
    def restarts_because(self) -> str:
        """The query that waits for its restart, and the error it failed with; empty if none waits."""
        return next((f"{name} is started again after {what}" for name, what in self._causes.items()), "")

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next restart; ``None`` if none is planned."""
        return max(0.0, min(self._due.values()) - self._clock()) if self._due else None

    def stop(self) -> list[str]:
        """Stops every query, even if one of them cannot be stopped.

        Returns:
            What went wrong, one line a query.
        """
        problems = []
        for query in self._queries:
            try:
                query.stop(self._stop_timeout_s)
            except Exception as error:
                log.exception("query did not stop", query=query.name)
                problems.append(f"query {query.name} did not stop: {error}")
        self._due.clear()
        return problems

    def _try_start(self, query: Query) -> None:
        self._take(query, _start(query))

    def _take(self, query: Query, error: Exception | None) -> None:
        if error is not None:
            self._plan_restart(query, error)
        else:
            self._due.pop(query.name, None)
            self._causes.pop(query.name, None)
            log.info("query started", query=query.name)

    def _plan_restart(self, query: Query, error: BaseException | None) -> None:
        cause = permanent_cause(error)
        if isinstance(cause, MillraceError):
            raise cause
        history = self._histories.get(query.name, _UNTOUCHED)
        restart = next_restart(history, query.progress.batches, self._policy, broker_is_away=is_broker_away(error))
        what = reason_of(error) if error is not None else "it ended without an error"
        if restart is None:
            raise OperationError(
                f"Query {query.name} died and made no progress in {history.attempts} restarts; last: {what}",
                remedy="remove the cause, then start the application again: it goes on at its committed offsets",
            ) from error
        self._histories[query.name] = restart.history
        self._due[query.name] = self._clock() + restart.wait_s
        self._causes[query.name] = what
        # One for want of a broker uses up no attempt, and is a restart all the same.
        self._on_restart(query.sub_topology, max(1, restart.history.attempts))
        log.warning(
            "query failed",
            query=query.name,
            error=what,
            attempt=restart.history.attempts,
            restart_in_s=restart.wait_s,
            exc_info=None if isinstance(error, MillraceError) else error,
        )


def _start(query: Query) -> Exception | None:
    try:
        query.start()
    except Exception as error:
        return error
    return None
