"""The Structured Streaming query of an application: each micro-batch is an epoch, in which stream threads run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from millrace.spark.results import RESULT_SCHEMA
from millrace.spark.stream_threads.launched import LaunchedThread, launched_threads
from millrace.spark.stream_threads.run_thread import RunThread
from millrace.spark.stream_threads.slots import EpochSize, SizeOfEpoch
from millrace.spark.streaming_run import StreamingRun

_TASKS_END_LIMIT_S = 3.0
"""How long the Spark tasks of an epoch may run on once its threads have left the driver, seconds."""

_log = structlog.get_logger(__name__)


class Epochs:
    """A streaming query that runs stream threads in Spark, epoch after epoch, until it is stopped.

    The source only ticks. An epoch is a job of one Spark task for each thread; those that find no slot wait in Spark
    for one. It ends when all its threads have ended, which the driver asks them for; one that fails is started again by
    Spark, beside the others, which go on.

    Args:
        spark: the session.
        name: of the query, as Spark shows it.
        size: how many stream threads there are to be; asked before each epoch, since executors come and go.
        function: what the threads of an epoch run, by its number.
    """

    def __init__(
        self, spark: SparkSession, name: str, *, size: SizeOfEpoch, function: Callable[[EpochSize], RunThread]
    ) -> None:
        self._spark = spark
        self.name = name
        self._size = size
        self._function = function
        self._run = StreamingRun(name)
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._running: int | None = None
        """Number of the epoch that runs."""
        self._cancelled: int | None = None
        self._failure: BaseException | None = None
        self._epoch = 0

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""
        return self._run.is_active

    @property
    def exception(self) -> BaseException | None:
        """The error of the query; ``None`` while it runs or after it was stopped."""
        if self._failure is not None or self._stopping.is_set():
            return self._failure
        return self._run.exception

    def start(self) -> None:
        """Starts the query, whose threads then connect to the driver."""
        self._stopping.clear()
        self._failure = None
        ticks = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 1)
            .option("numPartitions", 1)
            .load()
        )
        self._run.start(ticks.writeStream.foreachBatch(self._run_epoch))
        _log.info("stream threads start", query=self.name)

    def request_stop(self) -> None:
        """Lets no further epoch begin."""
        self._stopping.set()

    @property
    def running(self) -> int | None:
        """The number of the running epoch; ``None`` between two epochs."""
        return self._running

    def launched(self) -> tuple[LaunchedThread, ...]:
        """Returns the threads that Spark runs at the moment for the epoch; empty if Spark cannot be asked."""
        query = self._run.query
        if query is None:
            return ()
        try:
            return launched_threads(self._spark, str(query.runId))
        except Py4JError as error:
            # The session ends while it is asked.
            _log.warning("Spark does not say which stream threads it runs", query=self.name, problem=str(error))
            return ()

    def end_remaining_tasks(self, epoch: int | None) -> None:
        """Waits until an epoch whose threads have left is over, and cancels its Spark tasks that never connected.

        Args:
            epoch: number of the epoch.
        """
        with self._changed:
            if epoch is None or self._changed.wait_for(lambda: self._running != epoch, _TASKS_END_LIMIT_S):
                return
            self._cancelled = epoch
        query = self._run.query
        if query is not None:
            _log.warning("Spark tasks of stream threads that never connected are cancelled", query=self.name)
            self._spark.sparkContext.cancelJobGroup(str(query.runId))

    def stop(self, timeout_s: float) -> None:
        """Stops the query, after its threads have ended.

        Raises:
            OperationError: it did not stop in time.
        """
        self._stopping.set()
        if self._run.query is not None:
            # Its threads have ended, and its Spark tasks do so now: a job that is cancelled instead is a failure.
            with self._changed:
                self._changed.wait_for(lambda: self._running is None, timeout_s)
        self._run.stop(timeout_s, failure=f"The stream threads of {self.name} did not end")

    def _run_epoch(self, ticks: DataFrame, _batch: int) -> None:
        if self._stopping.is_set():
            return
        self._epoch += 1
        with self._changed:
            self._running = self._epoch
        try:
            size = self._size()
            _log.info("epoch begins", query=self.name, epoch=self._epoch, threads=size.threads)
            rows = ticks.sparkSession.range(0, size.threads, 1, size.threads)
            rows.mapInArrow(self._function(size), RESULT_SCHEMA).collect()
            _log.info("epoch ended", query=self.name, epoch=self._epoch)
        except Exception as error:
            if self._cancelled != self._epoch:
                self._failure = error
                raise
            _log.info("epoch ended, the rest of it was cancelled", query=self.name, epoch=self._epoch)
        except BaseException as error:
            self._failure = error
            raise
        finally:
            with self._changed:
                self._running = None
                self._changed.notify_all()
