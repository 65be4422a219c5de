"""The choice of the reader that a process uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache

import structlog

from millrace.errors import ConfigurationError
from millrace.kafka.columns.c_interface import InterfaceUnavailableError
from millrace.kafka.columns.consumer_reader import ConsumerReader
from millrace.kafka.columns.layout_check import checked_kernel
from millrace.kafka.columns.librdkafka_reader import LibrdkafkaReader
from millrace.kafka.columns.reader import PartitionReader
from millrace.kafka.columns.settings import ReaderSettings

READER_VARIABLE = "MILLRACE_RECORD_READER"
"""Environment variable that names the reader, one of :data:`OPENERS`; for tests, and for machines that have trouble."""

OPENERS: Mapping[str, Callable[[ReaderSettings], PartitionReader]] = {
    "consumer": ConsumerReader,
    "librdkafka": LibrdkafkaReader,
}

_deciding = threading.Lock()
_log = structlog.get_logger(__name__)


def open_reader(settings: ReaderSettings) -> PartitionReader:
    """Opens a reader without assignment: the fast one where this process can use it.

    Args:
        settings: how to connect, and how much to buffer.

    Raises:
        ConfigurationError: the client does not take a setting, or the environment names a reader that there is not, or
            that this process cannot use.
    """
    with _deciding:
        name = _chosen(os.environ.get(READER_VARIABLE, ""))
    return OPENERS[name](settings)


@lru_cache(maxsize=8)
def _chosen(wanted: str) -> str:
    """Returns the name of the reader, which is chosen once per process and logged."""
    if wanted == "consumer":
        _log.info("records are read by confluent_kafka.Consumer, as the environment says", variable=READER_VARIABLE)
        return wanted
    if wanted and wanted not in OPENERS:
        raise ConfigurationError(
            f"{READER_VARIABLE} is {wanted!r}, which is no reader.", remedy=f"set it to one of {', '.join(OPENERS)}"
        )
    try:
        checked_kernel()
    except InterfaceUnavailableError as error:
        if wanted:
            raise ConfigurationError(
                f"{READER_VARIABLE} asks for the reader {wanted}, which cannot be used here: {error}.",
                remedy=f"unset {READER_VARIABLE}: records are then read by confluent_kafka.Consumer",
            ) from error
        _log.warning(
            "records are read by confluent_kafka.Consumer, which costs about 2 microseconds more a record",
            reason=str(error),
        )
        return "consumer"
    return "librdkafka"
