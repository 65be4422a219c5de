"""Waiting in tests: for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(ask: Callable[[], T], expected: object, *, limit_s: float = 15) -> None:
    """Ask until the answer is as expected; fails with the last answer after ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"still {answer!r} after {limit_s} s, expected {expected!r}"
        time.sleep(0.05)
