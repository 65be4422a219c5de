"""Application reset: offsets, internal topics, local state and everything else that an application leaves behind."""

from millrace.install.named_cluster import NamedCluster
from millrace.operations.reset.options import ResetOptions
from millrace.operations.reset.reset import reset
from millrace.operations.reset.targets import (
    ShiftBy,
    Target,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    parse_duration,
    parse_offsets,
    parse_time,
)

__all__ = [
    "NamedCluster",
    "ResetOptions",
    "ShiftBy",
    "Target",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToOffsets",
    "ToTime",
    "parse_duration",
    "parse_offsets",
    "parse_time",
    "reset",
]
