"""The start of Python workers before the first batch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future

import structlog
from pyspark import SparkContext

_SHORT_TRACEBACKS = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_SHORT_TRACEBACKS_VARIABLE = "SPARK_SIMPLIFIED_TRACEBACK"

_log = structlog.get_logger(__name__)


def start_workers(context: Future[SparkContext]) -> Future[None]:
    """Starts Python workers in the background as soon as there is a Spark context.

    The daemon that they are forked from imports for a second; meanwhile the session comes up and queries are planned.

    Args:
        context: that is being made.

    Returns:
        Done once each slot has had a worker, or with why that failed.
    """
    started: Future[None] = Future()

    def start() -> None:
        try:
            spark = context.result()
            began = time.monotonic()
            slots = spark.defaultParallelism
            if spark.getConf().get(_SHORT_TRACEBACKS, "true") == "true":
                # As queries set it: workers of another environment would come from a daemon of their own.
                spark.environment[_SHORT_TRACEBACKS_VARIABLE] = "1"
            spark.parallelize(range(slots), slots).foreachPartition(_first_use)
            _log.info("workers started", slots=slots, seconds=round(time.monotonic() - began, 1))
            started.set_result(None)
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=start, name="start-workers", daemon=True).start()
    return started


def first_use() -> None:
    """Initializes what would delay the first batch of a process by a second: imports, kernels, machine code."""
    import pyarrow as pa

    from millrace.machine_code import MachineCodeUnavailableError
    from millrace.serdes.json_kernel import json_kernel
    from millrace.task.aggregation.groups import group, group_codes
    from millrace.task.task import Task

    assert Task is not None
    group(group_codes(pa.array([b"a", b"b", b"a"], type=pa.binary())))
    with contextlib.suppress(MachineCodeUnavailableError):  # the first who reads JSON says so
        json_kernel()


def _first_use(_: Iterable[int]) -> None:
    first_use()
