"""Compaction: changelogs cleaned now, repartition topics purged, the files of stores rewritten."""

from millrace.operations.compaction.compact import compact
from millrace.operations.compaction.plan import CompactionOptions

__all__ = ["CompactionOptions", "compact"]
