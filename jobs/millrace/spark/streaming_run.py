"""A streaming query and its checkpoint, which are replaced at each start."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millrace.errors import OperationError
from millrace.spark.scratch_checkpoint import ScratchCheckpoint


class StreamingRun:
    """The successive runs of a streaming query under one name.

    Args:
        name: of the query, as Spark shows it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._checkpoint = ScratchCheckpoint(name)
        self.query: StreamingQuery | None = None
        """The query; none before a start and after a stop."""

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self.query is not None and bool(self.query.isActive)

    @property
    def exception(self) -> BaseException | None:
        """The error of the query, as Spark reports it."""
        if self.query is None:
            return None
        error: BaseException | None = self.query.exception()
        return error

    @property
    def checkpoint(self) -> Path:
        """The directory of the query's checkpoint, which no later start reads."""
        assert self._checkpoint.path is not None
        return self._checkpoint.path

    def start(self, writer: DataStreamWriter) -> None:
        """Starts the query. A failed one need not be stopped first.

        Args:
            writer: what it does; its name and its checkpoint are set here.
        """
        location = str(self._checkpoint.create())
        self.query = writer.queryName(self._name).option("checkpointLocation", location).start()

    def stop(self, timeout_s: float, *, failure: str) -> None:
        """Stops the query, if there is one; must not be called inside a callback, for which Spark would wait.

        Args:
            timeout_s: how long that may take, seconds.
            failure: what did not stop, in words.

        Raises:
            OperationError: it did not stop in time.
        """
        query, self.query = self.query, None
        if query is not None:
            stopper = threading.Thread(target=query.stop, name=f"stop-{self._name}", daemon=True)
            stopper.start()
            stopper.join(timeout_s)
            if stopper.is_alive():
                raise OperationError(f"{failure} within {timeout_s:g} s.", remedy="end the driver's process")
        self._checkpoint.remove()
