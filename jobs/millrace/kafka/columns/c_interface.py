"""The functions of librdkafka that read records, called by ctypes in the library that confluent-kafka loads.

Each call releases the interpreter's lock. What librdkafka's own header file says of each function holds here too.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import lru_cache
from typing import Any

from confluent_kafka import cimpl

OLDEST_VERSION = 0x02_00_00_FF
NEWEST_MAJOR = 2
"""Public structures are kept over a major version."""

CONSUMER, PRODUCER = 1, 0
CONF_OK = 0
EVENT_DELIVERY, EVENT_LOG, EVENT_ERROR = 0x1, 0x4, 0x8
DESTROY_WITHOUT_CONSUMER_CLOSE = 0x8
MESSAGE_COPY = 0x2
PURGE_QUEUE = 0x1

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_version": (c_int, ()),
    "rd_kafka_version_str": (c_char_p, ()),
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_events": (None, (c_void_p, c_int)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_name": (c_char_p, (c_void_p,)),
    "rd_kafka_destroy_flags": (None, (c_void_p, c_int)),
    "rd_kafka_set_log_queue": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_get_main": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_poll": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_event_type": (c_int, (c_void_p,)),
    "rd_kafka_event_error": (c_int, (c_void_p,)),
    "rd_kafka_event_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_event_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_event_log": (c_int, (c_void_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_int))),
    "rd_kafka_event_message_array": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "rd_kafka_event_destroy": (None, (c_void_p,)),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_pause_partitions": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_resume_partitions": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "rd_kafka_get_watermark_offsets": (c_int, (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64))),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_message_timestamp": (c_int64, (c_void_p, c_void_p)),
    "rd_kafka_message_headers": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_message_errstr": (c_char_p, (c_void_p,)),
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_header_cnt": (c_size_t, (c_void_p,)),
    "rd_kafka_header_get_all": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)),
    "rd_kafka_topic_name": (c_char_p, (c_void_p,)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_produce": (
        c_int,
        (c_void_p, c_int32, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    ),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
}


class InterfaceUnavailableError(Exception):
    """The error where this process cannot read through librdkafka's C interface; its text says why."""


@lru_cache(maxsize=1)
def librdkafka() -> Any:
    """Returns the loaded library, with the argument types of its functions declared.

    Raises:
        InterfaceUnavailableError: it is not found, lacks a function, or is of a version that is not known.
    """
    try:
        # The extension module is linked to it, wherever the package keeps it.
        library = ctypes.CDLL(cimpl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise InterfaceUnavailableError(f"librdkafka's functions are not found: {error}") from error
    version = library.rd_kafka_version()
    if version < OLDEST_VERSION or version >> 24 > NEWEST_MAJOR:
        raise InterfaceUnavailableError(f"librdkafka {library.rd_kafka_version_str().decode()} is not known")
    return library


def address_of(function: Any) -> int:
    """Returns the address of a function of the library."""
    return int(ctypes.cast(function, c_void_p).value or 0)


def new_client(library: Any, kind: int, settings: dict[str, Any], *, events: int) -> int:
    """Creates a client and returns its handle.

    Args:
        library: see :func:`librdkafka`.
        kind: :data:`CONSUMER` or :data:`PRODUCER`.
        settings: names and values; a truth value is written as librdkafka does.
        events: which events go to its main queue.

    Raises:
        ValueError: the client was not made; the text says why.
    """
    reason = ctypes.create_string_buffer(512)
    configuration = library.rd_kafka_conf_new()
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.rd_kafka_conf_set(configuration, name.encode(), text.encode(), reason, len(reason)) != CONF_OK:
            library.rd_kafka_conf_destroy(configuration)
            raise ValueError(reason.value.decode(errors="replace"))
    library.rd_kafka_conf_set_events(configuration, events)
    handle = library.rd_kafka_new(kind, configuration, reason, len(reason))
    if not handle:
        library.rd_kafka_conf_destroy(configuration)
        raise ValueError(reason.value.decode(errors="replace"))
    return int(handle)
