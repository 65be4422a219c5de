"""What a drill saw, and the file that keeps it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.application import ROOT
from tests.chaos.drills.rows import BY_KEY

RECORD_VARIABLE = "MILLRACE_DRILLS_RECORD"
"""Names the file that takes the results of a run; without it nothing is kept."""

RESULTS = ROOT / "docs" / "failure-matrix.json"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one drill saw.

    Args:
        key: the row.
        seconds: from the failure until everything that was in the input by then was committed; of a failure that stops
            the application until it had stopped.
        by_itself: whether it went on by itself.
        states: the states that were passed through, in their order.
        metrics: what moved: the difference of counters and the highest value of gauges, by metric.
        reason: what the application said, shortened to its first sentence; empty where it went on.
        remedy: what it told the operator to do.
        applied: what the drill did to go on, where the application did not by itself.
        seconds_after: from the beginning of the remedy until everything was committed.
    """

    key: str
    seconds: float
    by_itself: bool
    states: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    remedy: str = ""
    applied: str = ""
    seconds_after: float | None = None


def record(result: Result) -> None:
    """Keeps a result where that is asked for."""
    assert result.key in BY_KEY
    path = os.environ.get(RECORD_VARIABLE)
    if path is None:
        return
    known = {**read(Path(path)), result.key: result}
    rows = {key: asdict(known[key]) for key in BY_KEY if key in known}
    Path(path).write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read(path: Path = RESULTS) -> dict[str, Result]:
    """The results of a file, by row; none where there is no file."""
    if not path.exists():
        return {}
    rows: dict[str, dict[str, Any]] = orjson.loads(path.read_bytes())
    return {key: Result(**{**row, "states": tuple(row["states"])}) for key, row in rows.items()}
