"""Retries of a start's requests to the broker: while no broker answers, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from millrace.errors import BrokerUnavailableError

log = structlog.get_logger(__name__)

T = TypeVar("T")

_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0


def retry_until_answered(
    call: Callable[[], T],
    *,
    limit_s: float,
    on_wait: Callable[[BrokerUnavailableError], None],
    wait: Callable[[float], bool],
) -> T:
    """Returns the result of ``call`` as soon as a broker answers.

    An overloaded one, or one that is being started, may take a while.

    Args:
        call: the requests; safe to repeat.
        limit_s: how long it is repeated after the first attempt began, seconds.
        on_wait: called after each attempt without an answer, before the wait for the next one.
        wait: waits so many seconds; returns whether to stop retrying.

    Raises:
        BrokerUnavailableError: no broker answered within the limit, or ``wait`` stopped; the last attempt's error.
    """
    deadline = time.monotonic() + limit_s
    pause_s = _FIRST_WAIT_S
    while True:
        try:
            return call()
        except BrokerUnavailableError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            log.warning("no answer from the broker yet", problem=error.message, left_s=round(left))
            on_wait(error)
            if wait(min(pause_s, left)):
                raise
            pause_s = min(2 * pause_s, _LONGEST_WAIT_S)
