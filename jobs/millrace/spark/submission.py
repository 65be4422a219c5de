"""The check whether ``spark-submit`` started this process."""

from __future__ import annotations

import os

_SUBMITTED_BY = "PYSPARK_GATEWAY_PORT"


def is_submitted() -> bool:
    """Returns whether ``spark-submit`` started this process: Spark's virtual machine then runs and has its settings."""
    return _SUBMITTED_BY in os.environ
