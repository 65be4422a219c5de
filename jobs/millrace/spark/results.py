"""The schema of a Spark task's result."""

from __future__ import annotations

RESULT_SCHEMA = "result binary"
"""One row of bytes; everything else a task writes to Kafka by itself."""
