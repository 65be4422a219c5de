"""The table of ``millrace status``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millrace.cli.console import out
from millrace.cli.restore_bar import restore_text
from millrace.driver.status import StreamThreadStatus
from millrace.errors import MillraceError, OperationError
from millrace.insight.overview.probe import unknown
from millrace.insight.overview.watch import known_applications
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.launch.observation import Observation, Verdict
from millrace.launch.observe import observe

_OLD_S = 6.0
"""A lag that is older than two heartbeats is shown with its age."""

_COLOURS = {
    Verdict.HEALTHY: "green",
    Verdict.WAITING: "yellow",
    Verdict.STALLED: "yellow",
    Verdict.UNHEALTHY: "red",
    Verdict.DEAD: "red",
    Verdict.FENCED: "red",
    Verdict.STOPPED: "dim",
    Verdict.NOT_DEPLOYED: "dim",
}


DOES_NOT_WORK = 1
NOT_PROGRESSING = 4
"""Exit code where every application works that should, and one commits nothing."""


def exit_code(rows: Sequence[Row]) -> int:
    """Returns the exit code of ``millrace status``: 0 well, 1 an application does not work, 4 one commits nothing."""
    verdicts = {row.observation.verdict for row in rows}
    if any(each.needs_restart or each is Verdict.FENCED for each in verdicts):
        return DOES_NOT_WORK
    return NOT_PROGRESSING if Verdict.STALLED in verdicts else 0


_MOST_THREADS = 8
"""Most stream threads of an application that are shown."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """An application in the table of ``millrace status``.

    Args:
        observation: how it is.
        address: its control plane; empty where it has none.
    """

    observation: Observation
    address: str

    def document(self) -> dict[str, Any]:
        """Returns the row for ``--json``."""
        return {**self.observation.summary(), "control_address": self.address}


def probe(names: Sequence[str]) -> list[Row]:
    """Returns how these applications are; without names all that have a specification or were deployed.

    Raises:
        OperationError: there is no application of a name.
    """
    home = Home.from_environment()
    known = known_applications(home)
    for name in names:
        if name not in known:
            raise OperationError(
                f"There is no application {name!r}.", remedy=f"these are known: {', '.join(known) or 'none'}"
            )
    rows = []
    for name in names or known:
        try:
            observation = observe(Application(home, name))
        except MillraceError as error:
            # What is wrong with one must not hide the others.
            observation = unknown(name, str(error), at=time.time()).observation
        control = observation.control
        rows.append(Row(observation=observation, address=control.address if control else ""))
    return rows


def table(rows: Sequence[Row], *, before: Sequence[Row] = ()) -> Table:
    """Returns the rows as a table; with an earlier look, also records per second."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("application", "health", "state"):
        result.add_column(header, no_wrap=True)
    for header in ("lag", "last commit", "records/s", "restarts"):
        result.add_column(header, justify="right", no_wrap=True)
    result.add_column("control plane", no_wrap=True)
    earlier = {row.observation.application: row.observation for row in before}
    for row in rows:
        seen = row.observation
        colour = _COLOURS[seen.verdict]
        result.add_row(
            seen.application,
            Text(seen.verdict.value.replace("_", " "), style=colour),
            seen.state or "-",
            _lag(seen),
            _ago(seen.last_commit_at, seen.at),
            _number(_rate(seen, earlier.get(seen.application))),
            str(seen.restarts) if seen.driver else "-",
            row.address or "-",
        )
        if text := restore_text(seen):
            result.add_row(Text(f"  {text}", style="yellow", overflow="ellipsis"))
    return result


def explanations(rows: Sequence[Row]) -> list[Text]:
    """Returns the lines below the table: what is wrong with applications, and what else is to be known of them."""
    lines = []
    for row in rows:
        seen = row.observation
        if seen.verdict not in {Verdict.HEALTHY, Verdict.NOT_DEPLOYED}:
            remedy = f" Remedy: {seen.remedy}" if seen.remedy else ""
            text = f"{seen.text.rstrip('.')}." if remedy else seen.text
            lines.append(Text(f"{seen.application}: {_one_line(text + remedy)}", style=_COLOURS[seen.verdict]))
        lines += [Text(f"{seen.application}: {line}") for line in _stream_threads(seen)]
        if seen.note:
            lines.append(Text(f"{seen.application}: note: {_one_line(seen.note)}", style="yellow"))
    return lines


def _stream_threads(seen: Observation) -> list[str]:
    """Which stream thread has which tasks, and what it spends its time on."""
    lines = [
        f"stream thread {each.slot} on {each.worker}: {' '.join(each.tasks) or 'no task'}; {each.poll:.0%} poll, "
        f"{each.process:.0%} process, {each.commit:.0%} commit, {each.idle:.0%} idle; "
        f"{each.commits_per_s:.1f} commits/s"
        + ("" if each.commit_latency_s is None else f" of {each.commit_latency_s * 1000:.0f} ms")
        + _standbys(each)
        for each in seen.stream_threads[:_MOST_THREADS]
    ]
    more = len(seen.stream_threads) - _MOST_THREADS
    return lines if more <= 0 else [*lines, f"{more} more stream threads: see /tasks of its control plane"]


def _standbys(thread: StreamThreadStatus) -> str:
    """Of which tasks a stream thread keeps standby copies, and how far they are."""
    if not thread.standbys:
        return ""
    lag = "unknown" if thread.standby_lag is None else f"{thread.standby_lag:,}"
    problems = "".join(f"; copy of {each}" for each in thread.standby_problems)
    return f"; standby copies of {' '.join(thread.standbys)}, lag {lag}{problems}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def watch(names: Sequence[str], *, interval_s: float) -> None:
    """Keeps the table up to date until it is interrupted; where there is no terminal it is printed again and again."""
    before: list[Row] = []
    with Live(console=out, auto_refresh=False, screen=False) as live:
        while True:
            rows = probe(names)
            live.update(Group(table(rows, before=before), *explanations(rows)), refresh=True)
            before = rows
            time.sleep(interval_s)


def print_json(rows: Sequence[Row]) -> None:
    """Prints the rows as one JSON array."""
    text = orjson.dumps([row.document() for row in rows], option=orjson.OPT_INDENT_2).decode()
    out.print(text, markup=False)


def _rate(now: Observation, before: Observation | None) -> float | None:
    if before is None or before.driver != now.driver or now.records is None or before.records is None:
        return None
    return (now.records - before.records) / (now.at - before.at) if now.at > before.at else None


def _lag(seen: Observation) -> str:
    """Records behind; with its age where it is not of now, as the broker has not said since where the input ends."""
    age = 0.0 if seen.lag_at is None else seen.at - seen.lag_at
    return f"{_number(seen.lag)} ({age:.0f} s ago)" if seen.lag is not None and age > _OLD_S else _number(seen.lag)


def _ago(at: float | None, now: float) -> str:
    return "-" if at is None else f"{max(0.0, now - at):,.0f} s ago"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
