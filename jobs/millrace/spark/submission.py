"""Whether Spark's virtual machine was there before this process."""

from __future__ import annotations

import os

_SUBMITTED_BY = "PYSPARK_GATEWAY_PORT"


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process: Spark's virtual machine is up then, and has its settings."""
    return _SUBMITTED_BY in os.environ
