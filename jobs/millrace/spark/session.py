"""The Spark session of a driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from millrace.config import StreamsConfig

ARROW_BATCH_RECORDS = 100_000
"""Rows of one Arrow batch between the JVM and Python: large ones cost less per record, and a batch is taken whole."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # A streaming batch is small and planned anew each time; adaptive planning only adds jobs to it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_RECORDS),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60s",
    # A second attempt beside the first would only fence it.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    # Half the JVM's time per record of the default collector on two cores: nothing here needs its short pauses.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def create_session(config: StreamsConfig, jars: Sequence[Path]) -> SparkSession:
    """A session for one application.

    Args:
        config: its configuration; ``spark.*`` settings win over ours.
        jars: the Kafka connector and what it needs.
    """
    # Workers must have the driver's packages, whatever python3 is first on their path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(config.master).appName(config.application_id)
    own = {**_SETTINGS, "spark.jars": ",".join(str(jar) for jar in jars)}
    passed_on = {key: value for key, value in config.passed_on.items() if key.startswith("spark.")}
    for key, value in {**own, **passed_on}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
