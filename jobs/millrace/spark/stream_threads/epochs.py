"""The Structured Streaming query of an application: each micro-batch is an epoch, in which stream threads run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millrace.errors import OperationError
from millrace.spark.results import RESULT_SCHEMA
from millrace.spark.scratch_checkpoint import ScratchCheckpoint
from millrace.spark.stream_threads.run_thread import RunThread

_log = structlog.get_logger(__name__)


class Epochs:
    """Runs stream threads in Spark, epoch after epoch, until it is stopped.

    The source only ticks: one row for each thread. An epoch ends when all its threads have ended, which the driver asks
    them for; one that fails is started again by Spark, beside the others, which go on.

    Args:
        spark: the session.
        name: of the query, as Spark shows it.
        count: how many stream threads there are to be, no more than slots; asked at each start, since executors come
            after the session.
        function: what the threads of an epoch run, by its number.
    """

    def __init__(
        self, spark: SparkSession, name: str, *, count: Callable[[], int], function: Callable[[int], RunThread]
    ) -> None:
        self._spark = spark
        self.name = name
        self.threads = 0
        """Number of stream threads of an epoch."""
        self._count = count
        self._function = function
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._between = threading.Event()
        self._between.set()
        self._failure: BaseException | None = None
        self._checkpoint = ScratchCheckpoint(name)
        self._epoch = 0

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""
        return self._query is not None and bool(self._query.isActive)

    @property
    def exception(self) -> BaseException | None:
        """Why it failed; ``None`` while it runs or after it was stopped."""
        if self._failure is not None:
            return self._failure
        if self._query is None or self._stopping.is_set():
            return None
        error: BaseException | None = self._query.exception()
        return error

    def start(self) -> None:
        """Start the query, whose threads then connect to the driver."""
        self._stopping.clear()
        self._failure = None
        self.threads = self._count()
        ticks = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", self.threads)
            .option("numPartitions", self.threads)
            .load()
        )
        self._query = (
            ticks.writeStream.queryName(self.name)
            .option("checkpointLocation", str(self._checkpoint.create()))
            .foreachBatch(self._run_epoch)
            .start()
        )
        _log.info("stream threads start", query=self.name, threads=self.threads)

    def request_stop(self) -> None:
        """No further epoch begins."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """Stop the query, whose threads were ended before.

        Raises:
            OperationError: it did not stop in time.
        """
        self._stopping.set()
        query, self._query = self._query, None
        if query is not None:
            # Its threads have ended, and its Spark tasks do so now: a job that is cancelled instead is a failure.
            self._between.wait(timeout_s)
            stopper = threading.Thread(target=query.stop, name=f"stop-{self.name}", daemon=True)
            stopper.start()
            stopper.join(timeout_s)
            if stopper.is_alive():
                raise OperationError(
                    f"The stream threads of {self.name} did not end within {timeout_s:g} s.",
                    remedy="end the driver's process",
                )
        self._checkpoint.remove()

    def _run_epoch(self, ticks: DataFrame, _batch: int) -> None:
        if self._stopping.is_set():
            return
        self._epoch += 1
        self._between.clear()
        try:
            _log.info("epoch begins", query=self.name, epoch=self._epoch)
            ticks.mapInArrow(self._function(self._epoch), RESULT_SCHEMA).collect()
            _log.info("epoch ended", query=self.name, epoch=self._epoch)
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._between.set()
