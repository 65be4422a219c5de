"""Makes ``docs/failure-matrix.md``: ``python -m tests.chaos.drills.page > docs/failure-matrix.md``."""

from __future__ import annotations

import sys

from tests.chaos.drills.results import Result, read
from tests.chaos.drills.rows import ROWS, Row

_INTRODUCTION = """\
# Failure matrix

What happens when something fails: what is seen, how long it takes, what Millrace does by itself and what it tells the
operator. Each row is a drill (`tests/chaos/drills`, and tests that it names), in which the failure is real, records
keep coming, and afterwards output and stores are compared with an independent model. A row without figures says what is
meant to happen: no run of its drill is recorded yet. Figures are those of one run on a shared machine with 2 cores,
with a topology of two sub-topologies, four tasks and three stores of some thousand entries, 100 records a second, and a
heartbeat every second. Seconds count from the failure until everything that was in the input by then was committed, or,
where the application stops, until it had. A start of a driver is a part of some of them: 15 to 25 s on two quiet cores.

To run the drills and make the page again:

```sh
MILLRACE_DRILLS_RECORD=docs/failure-matrix.json uv run pytest tests/chaos/drills tests/chaos/test_exactly_once.py
uv run python -m tests.chaos.drills.page > docs/failure-matrix.md
```

| failure | by itself | seconds | states | metrics that move |
|---|---|---|---|---|
"""


def page() -> str:
    """The page, Markdown."""
    results = read()
    table = "\n".join(_line(row, results.get(row.key)) for row in ROWS)
    return f"{_INTRODUCTION}{table}\n\n" + "\n\n".join(_section(row, results.get(row.key)) for row in ROWS) + "\n"


def _line(row: Row, result: Result | None) -> str:
    anchor = row.failure.lower().replace(" ", "-").replace("'", "")
    if result is None:
        return f"| [{row.failure}](#{anchor}) | no run of this drill is recorded yet | | | |"
    metrics = "<br>".join(f"`{name}` {_number(value)}" for name, value in result.metrics.items())
    cells = (
        f"[{row.failure}](#{anchor})",
        "yes" if result.by_itself else "no: it stops",
        f"{result.seconds:.0f}",
        " → ".join(result.states),
        metrics or "none",
    )
    return f"| {' | '.join(cells)} |"


def _section(row: Row, result: Result | None) -> str:
    lines = [
        f"## {row.failure}",
        "",
        f"- **The drill**: {row.drill}.",
        f"- **{'Meant to happen' if result is None else 'Done'} by itself**: {row.done}.",
    ]
    if result is None:
        return "\n".join(lines)
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
