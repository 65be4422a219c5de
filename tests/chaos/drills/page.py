"""Makes ``docs/failure-matrix.md``; see ``make drills``."""

from __future__ import annotations

import sys

from tests.chaos.drills.results import Result, read
from tests.chaos.drills.rows import ROWS, Row

_INTRODUCTION = """\
# Failure matrix

What happens when something fails: what is seen, how long it takes, what Millrace does by itself and what it tells the
operator. Each row is a drill (`tests/chaos/drills`, and tests that it names), in which the failure is real, records
keep coming, and afterwards output and stores are compared with an independent model. Figures are those of one run on a
shared machine with 2 cores, with a topology of two sub-topologies, four tasks and three stores of some thousand
entries, 100 records a second, and a heartbeat every second. Seconds count from the failure until everything that was in
the input by then was committed, or, where the application stops, until it had. A start of a driver is a part of some of
them: 5 to 12 s on two cores.

`make drills` runs them and makes this page again.

| failure | by itself | seconds | states | metrics that move |
|---|---|---|---|---|
"""


def page() -> str:
    """The page, Markdown.

    Raises:
        KeyError: a row has no result.
    """
    results = read()
    table = "\n".join(_line(row, results[row.key]) for row in ROWS)
    return f"{_INTRODUCTION}{table}\n\n" + "\n\n".join(_section(row, results[row.key]) for row in ROWS) + "\n"


def _line(row: Row, result: Result) -> str:
    anchor = row.failure.lower().replace(" ", "-").replace("'", "")
    metrics = "<br>".join(f"`{name}` {_number(value)}" for name, value in result.metrics.items())
    cells = (
        f"[{row.failure}](#{anchor})",
        "yes" if result.by_itself else "no: it stops",
        f"{result.seconds:.0f}",
        " → ".join(result.states),
        metrics or "none",
    )
    return f"| {' | '.join(cells)} |"


def _section(row: Row, result: Result) -> str:
    lines = [
        f"## {row.failure}",
        "",
        f"- **The drill**: {row.drill}.",
        f"- **Done by itself**: {row.done}.",
    ]
    if result.reason:
        lines += [f"- **The reason it gives**: {result.reason}", f"- **The remedy it names**: {result.remedy}."]
    else:
        lines.append("- **The operator** is told by states and metrics; there is nothing to do.")
    if result.applied:
        after = "" if result.seconds_after is None else f"; {result.seconds_after:.0f} s later everything was committed"
        lines.append(f"- **What the drill did then**: {result.applied}{after}.")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:+.0f}"


if __name__ == "__main__":
    sys.stdout.write(page())
