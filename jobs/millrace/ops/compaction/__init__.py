"""Compaction: changelogs cleaned now, repartition topics purged, the files of stores rewritten."""

from millrace.ops.compaction.compact import compact
from millrace.ops.compaction.plan import CompactionOptions

__all__ = ["CompactionOptions", "compact"]
