"""The progress of a restoration: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from millrace.cli.console import messages
from millrace.launch.observation import Observation

_LINE_INTERVAL_S = 5.0


def restore_text(seen: Observation) -> str:
    """Records that remain, rate, and time left; empty where nothing is restored."""
    if not seen.restore_remaining:
        return ""
    left = "" if seen.restore_eta_s is None else f", {_duration(seen.restore_eta_s)} left"
    return f"restoring: {seen.restore_remaining:,} records remain, {seen.restore_rate:,.0f}/s{left}"


@contextmanager
def restore_bar(idle_text: str) -> Iterator[Callable[[Observation], None]]:
    """Shows how far it is.

    Args:
        idle_text: what to say while nothing is restored.

    Yields:
        the function that takes each probe.
    """
    if not messages.is_terminal:
        messages.print(idle_text, markup=False)
        yield _Lines().show
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task(idle_text, total=None)
        most = 0

        def show(seen: Observation) -> None:
            nonlocal most
            most = max(most, seen.restore_remaining)
            bar.update(
                task,
                description=restore_text(seen) or idle_text,
                total=most or None,
                completed=most - seen.restore_remaining,
            )

        yield show


class _Lines:
    """A line now and then, since one for each probe would be too many."""

    def __init__(self) -> None:
        self._told_at = float("-inf")

    def show(self, seen: Observation) -> None:
        text = restore_text(seen)
        if text and time.monotonic() - self._told_at >= _LINE_INTERVAL_S:
            self._told_at = time.monotonic()
            messages.print(f"{seen.application}: {text}", markup=False)


def _duration(seconds: float) -> str:
    minutes, remaining = divmod(round(seconds), 60)
    return f"{minutes} min {remaining} s" if minutes else f"{remaining} s"
