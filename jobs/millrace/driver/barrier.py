"""A barrier between batches: the control thread holds the lock of every query, so that none is inside a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from millrace.driver.query import Query
from millrace.errors import OperationError


@contextmanager
def between_batches(queries: Sequence[Query], *, timeout_s: float) -> Iterator[None]:
    """Holds all queries between two batches while the body runs. Idle queries are covered too.

    Locks are taken in the order of the sub-topologies, so that two barriers cannot block each other, and released in
    the opposite order. Spark's own ``stop`` waits for a running callback: do not stop a query inside the body.

    Args:
        queries: the queries to hold.
        timeout_s: longest wait for all locks together, seconds.

    Raises:
        OperationError: a batch did not end in time; its query is named and every lock is released.
    """
    deadline = time.monotonic() + timeout_s
    held: list[Query] = []
    try:
        for query in sorted(queries, key=lambda each: each.sub_topology):
            if not query.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise OperationError(
                    f"Query {query.name} was still inside a batch after {timeout_s:g} s.",
                    remedy="look at the batch in the driver's log; a longer limit may be enough",
                )
            held.append(query)
        yield
    finally:
        for query in reversed(held):
            query.lock.release()
