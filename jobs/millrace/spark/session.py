"""The Spark session of a driver."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from millrace.config import ProcessingEngine, StreamsConfig, is_secret
from millrace.kafka.jars import SPARK_KAFKA_JARS, resolve_jars
from millrace.kafka.java_clients import java_properties
from millrace.spark.class_archive import class_archive_settings
from millrace.spark.engine import JAVA_OPTIONS, SESSION_SETTINGS
from millrace.spark.launcher_archive import launcher_environment
from millrace.spark.start_workers import start_workers
from millrace.spark.submission import is_submitted

ARROW_BATCH_ROWS = 2_000
"""Rows of one Arrow batch between the JVM and Python: each batch costs 0.1 ms, and larger ones gained nothing more."""

_ARROW_BATCH_BYTES = 2**31 - 1
"""What a column of an Arrow batch can hold. No limit of memory: a task holds all rows of its part of the batch."""

_FEWEST_ROWS = 100
_UNLIMITED = str(2**31 - 1)
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # A streaming batch is small and planned again each time; adaptive planning only adds jobs to it.
    "spark.sql.adaptive.enabled": "false",
    _ROWS: str(ARROW_BATCH_ROWS),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60s",
    # A second attempt beside the first would only fence it.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.daemon.module": "millrace.spark.python_daemon",
}
"""What a session is given that the specification does not set; see :func:`own_settings`."""

_DRIVER_JAVA, _EXECUTOR_JAVA = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"
LOOPBACK = "127.0.0.1"
_HOST = "spark.driver.host"
_BIND_ADDRESS = "spark.driver.bindAddress"


def own_settings(config: StreamsConfig, engine: ProcessingEngine) -> dict[str, str]:
    """Returns the session settings of an application that its specification does not set.

    Args:
        config: the application's configuration.
        engine: what executes the application; micro-batches where that is not known yet, whose virtual machines suit
            both.
    """
    options = JAVA_OPTIONS[engine]
    own = {
        **SETTINGS,
        **SESSION_SETTINGS[engine],
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
    }
    allowed = java_properties(config.client_settings("consumer."))
    # Not the extra ones, which users set: virtual machines get these and those.
    return {**own, **({_DRIVER_JAVA: " ".join(allowed), _EXECUTOR_JAVA: " ".join(allowed)} if allowed else {})}


def driver_address(session: SparkSession) -> tuple[str, str]:
    """Returns the address on which the driver listens for its workers, and the address at which they reach it."""
    host = session.conf.get(_HOST)
    return session.conf.get(_BIND_ADDRESS, host), host


@dataclass(frozen=True)
class SessionStart:
    """A session that is being opened in the background.

    Args:
        session: the session.
        workers: done once each slot has had a Python worker, or with why that failed.
    """

    session: Future[SparkSession]
    workers: Future[None]


def open_session(config: StreamsConfig, engine: ProcessingEngine) -> SessionStart:
    """Begins to open a session and to start its Python workers in the background, which takes seconds.

    Args:
        config: the application's configuration.
        engine: what executes the application.
    """
    session: Future[SparkSession] = Future()
    context: Future[SparkContext] = Future()

    def open_it() -> None:
        try:
            # What spark-submit started has its jars, and its pyspark is a file in which there are none.
            jars = () if is_submitted() else resolve_jars(SPARK_KAFKA_JARS)
            archive = class_archive_settings(jars) if jars else {}
            session.set_result(create_session(config, engine, jars, archive, context))
        except BaseException as error:
            session.set_exception(error)
            if not context.done():
                context.set_exception(error)

    threading.Thread(target=open_it, name="spark-session", daemon=True).start()
    return SessionStart(session, start_workers(context))


def create_session(
    config: StreamsConfig,
    engine: ProcessingEngine,
    jars: Sequence[Path],
    class_archive: Mapping[str, str],
    context: Future[SparkContext] | None = None,
) -> SparkSession:
    """Returns a session for one application; under ``spark-submit``, the session that it has prepared.

    With a local master the driver listens on its own host only; otherwise Spark takes the address of the host's name,
    unless ``spark.driver.host`` and ``spark.driver.bindAddress`` say where workers reach it.

    Args:
        config: its configuration; ``spark.*`` settings win over ours.
        engine: what executes it.
        jars: the Kafka connector and what it needs.
        class_archive: settings of :mod:`millrace.spark.class_archive`; none where there is no archive.
        context: gets the session's context as soon as there is one, which is some time before there is a session.
    """
    builder = SparkSession.builder
    passed_on = config.spark_settings
    if is_submitted():
        # The others came with the submission.
        for key in filter(is_secret, passed_on):
            builder = builder.config(key, passed_on[key])
        return _session_of(builder, SparkConf(), context)
    # Workers must have the driver's packages, whatever python3 is first on their path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    for name, value in launcher_environment().items():
        os.environ.setdefault(name, value)
    builder = builder.master(config.master).appName(config.application_id)
    given = own_settings(config, engine)
    own = {**given, "spark.jars": ",".join(str(jar) for jar in jars), **class_archive}
    if _DRIVER_JAVA in given and _DRIVER_JAVA in class_archive:
        own[_DRIVER_JAVA] = f"{class_archive[_DRIVER_JAVA]} {given[_DRIVER_JAVA]}"
    if config.master.startswith("local"):
        own |= {_HOST: LOOPBACK, _BIND_ADDRESS: LOOPBACK}
    settings = {**own, **passed_on}
    for key, value in settings.items():
        builder = builder.config(key, value)
    # PySpark gives what it knows when it starts the JVM on its command line, which everybody on the host can read.
    public = SparkConf().setMaster(config.master).setAppName(config.application_id)
    public.setAll([(key, value) for key, value in settings.items() if not is_secret(key)])
    SparkContext._ensure_initialized(conf=public)
    whole = SparkConf().setMaster(config.master).setAppName(config.application_id).setAll([*settings.items()])
    return _session_of(builder, whole, context)


def _session_of(
    builder: SparkSession.Builder, settings: SparkConf, context: Future[SparkContext] | None
) -> SparkSession:
    spark_context = SparkContext.getOrCreate(settings)
    spark_context.setLogLevel("ERROR")
    if context is not None:
        context.set_result(spark_context)
    return builder.getOrCreate()


def arrow_batch_settings(largest_record_bytes: int) -> dict[str, str]:
    """Returns the settings by which Spark divides the rows for Python into Arrow batches.

    With a limit of bytes Spark asks for the size of the batch at every row, a third of what the JVM does for a record.
    Where records cannot be large, their number limits a batch well enough.

    Args:
        largest_record_bytes: the ``max.message.bytes`` of the input topics.
    """
    rows = min(ARROW_BATCH_ROWS, _ARROW_BATCH_BYTES // largest_record_bytes)
    return {_ROWS: str(rows), _BYTES: _UNLIMITED} if rows >= _FEWEST_ROWS else {}


def set_arrow_batches(session: SparkSession, config: StreamsConfig, *, largest_record_bytes: int) -> None:
    """Applies :func:`arrow_batch_settings` to the queries that start in a session; the user's own settings win."""
    for key, value in arrow_batch_settings(largest_record_bytes).items():
        if key not in config.passed_on:
            session.conf.set(key, value)
