"""Which reader a process uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millrace.kafka.columns.consumer_reader import ConsumerReader
from millrace.kafka.columns.reader import PartitionReader
from millrace.kafka.columns.settings import ReaderSettings

READER_VARIABLE = "MILLRACE_RECORD_READER"
"""Environment variable that names the reader."""

OPENERS: Mapping[str, Callable[[ReaderSettings], PartitionReader]] = {"consumer": ConsumerReader}
"""The readers, by the names that the variable knows."""


def open_reader(settings: ReaderSettings) -> PartitionReader:
    """Open a reader that is assigned nothing yet.

    Args:
        settings: how to connect, and how much to buffer.

    Raises:
        ConfigurationError: the client does not take a setting.
    """
    return ConsumerReader(settings)
