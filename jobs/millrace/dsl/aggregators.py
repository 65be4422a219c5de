"""Built-in aggregators for ``aggregate()``: ``from millrace.dsl import aggregators as agg``."""

from __future__ import annotations

from millrace.topology.aggregators import avg, collect, count, first, last, max_, min_, struct, sum_

__all__ = ["avg", "collect", "count", "first", "last", "max_", "min_", "struct", "sum_"]
