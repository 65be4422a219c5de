"""What a dashboard is made of, without Grafana's details: a test reads the queries here, the builder everything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

APP = 'application_id=~"$application"'
"""Selects the applications that are chosen in the dashboard."""
SUB = f'{APP},subtopology=~"$subtopology"'
"""Selects the sub-topologies, too."""


class Unit(StrEnum):
    """Grafana's names of units."""

    SHORT = "short"
    SECONDS = "s"
    BYTES = "bytes"
    SHARE = "percentunit"
    PER_SECOND = "cps"
    YES_NO = "bool_yes_no"


class Kind(StrEnum):
    """How a panel shows its series."""

    LINES = "lines"
    STACKED = "stacked"
    NUMBER = "number"
    TABLE = "table"


@dataclass(frozen=True)
class Query:
    """One query.

    Args:
        expr: PromQL.
        legend: name of its series, with ``{{label}}``.
    """

    expr: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Args:
        title: what it shows, short.
        text: what to read from it.
        queries: what is asked.
        unit: of its values.
        kind: how it is shown.
        width: of 24 columns.
        alert: the alert whose runbook the series link to.
        red_above: values above are red.
        red_below: values below are red.
    """

    title: str
    text: str
    queries: tuple[Query, ...]
    unit: Unit = Unit.SHORT
    kind: Kind = Kind.LINES
    width: int = 12
    alert: str = ""
    red_above: float | None = None
    red_below: float | None = None


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """One dashboard.

    Args:
        uid: its address in Grafana, and the file's name.
        title: its name.
        text: for whom it is, and for which question.
        panels: from the top, left to right.
        by_application: whether applications are chosen.
        by_subtopology: whether sub-topologies are chosen, too.
    """

    uid: str
    title: str
    text: str
    panels: tuple[Panel, ...]
    by_application: bool = True
    by_subtopology: bool = False


def p99(metric: str, labels: str, by: str = "application_id, subtopology") -> str:
    """The 99th percentile of a histogram."""
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{{{labels}}}[5m])))"
