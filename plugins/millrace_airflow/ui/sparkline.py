"""The lag over time as a line that fits into a cell of a table."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from millrace.insight.overview import LagPoint, Trend
from millrace_airflow.ui.words import duration, number

_WIDTH, _HEIGHT, _EDGE = 96, 22, 2
_WORDS = {
    Trend.UNKNOWN: "",
    Trend.STEADY: "steady",
    Trend.GROWING: "growing",
    Trend.FALLING: "falling",
}


def sparkline(points: Sequence[LagPoint], trend: Trend) -> Markup:
    """An SVG; empty with fewer than two points.

    Args:
        points: oldest first.
        trend: where it is going; said to whoever does not see the picture.
    """
    if len(points) < 2:
        return Markup("")
    begin, end = points[0].at, points[-1].at
    highest = max(point.lag for point in points)
    # What does not change is drawn in the middle.
    top = max(1.0, highest * (2.0 if highest == min(point.lag for point in points) else 1.0))
    span = max(end - begin, 1e-9)

    def place(point: LagPoint) -> str:
        x = _EDGE + (point.at - begin) / span * (_WIDTH - 2 * _EDGE)
        # From 0 upwards, so that a lag that only wavers does not look like one that doubles.
        y = _HEIGHT - _EDGE - (point.lag / top) * (_HEIGHT - 2 * _EDGE)
        return f"{x:.1f},{y:.1f}"

    line = " ".join(place(point) for point in points)
    last = place(points[-1]).split(",")
    words = escape(
        f"Lag over {duration(span)}: from {number(points[0].lag)} to {number(points[-1].lag)}, "
        f"highest {number(highest)}" + (f", {_WORDS[trend]}" if _WORDS[trend] else "")
    )
    return Markup(
        f'<svg class="spark {trend.value}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="{words}"><title>{words}</title>'
        f'<polyline points="{line}"/><circle cx="{last[0]}" cy="{last[1]}" r="2"/></svg>'
    )
