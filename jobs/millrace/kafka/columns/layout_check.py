"""The check that messages of the loaded librdkafka are laid out as the kernel reads them."""

from __future__ import annotations

import ctypes
import os
import time
from functools import lru_cache
from typing import Any

import numpy as np
from confluent_kafka import KafkaError

from millrace.kafka.columns.c_interface import (
    DESTROY_WITHOUT_CONSUMER_CLOSE,
    EVENT_DELIVERY,
    MESSAGE_COPY,
    PRODUCER,
    PURGE_QUEUE,
    InterfaceUnavailableError,
    librdkafka,
    new_client,
)
from millrace.kafka.columns.kernel import (
    ERROR,
    KEY,
    KEY_BYTES,
    OFFSET,
    PARTITION,
    TABLE_ROWS,
    TOPIC,
    VALUE,
    VALUE_BYTES,
    Kernel,
    kernel,
)

_TOPIC = b"layout"
_PARTITION = 7
_CONTENT_KEY = b"a key"
_CONTENT_VALUE = b"a longer value"
_NO_OFFSET = -1001
_WAIT_MS = 10_000


@lru_cache(maxsize=1)
def checked_kernel() -> tuple[Any, Kernel]:
    """Returns the library and the kernel, after the kernel has read a message of this library correctly.

    The message is one that a producer without a broker gives back when it is told to drop what it has: topic,
    partition, key, value, offset and error are known. Once in a process.

    Raises:
        InterfaceUnavailableError: the kernel reads something else, or there is none.
    """
    library = librdkafka()
    loops = kernel()
    settings = {"client.id": "millrace-layout", "log_level": 0}
    try:
        client = new_client(library, PRODUCER, settings, events=EVENT_DELIVERY)
    except ValueError as error:
        raise InterfaceUnavailableError(f"no client can be made: {error}") from error
    topic = library.rd_kafka_topic_new(client, _TOPIC, None)
    queue = library.rd_kafka_queue_get_main(client)
    try:
        _check(library, loops, client, topic, queue)
    finally:
        library.rd_kafka_queue_destroy(queue)
        library.rd_kafka_topic_destroy(topic)
        library.rd_kafka_destroy_flags(client, DESTROY_WITHOUT_CONSUMER_CLOSE)
    return library, loops


def _check(library: Any, loops: Kernel, client: int, topic: int, queue: int) -> None:
    sent = (_CONTENT_VALUE, len(_CONTENT_VALUE), _CONTENT_KEY, len(_CONTENT_KEY))
    if library.rd_kafka_produce(topic, _PARTITION, MESSAGE_COPY, *sent, None) != 0:
        raise InterfaceUnavailableError("a message for the check of the layout was not taken")
    library.rd_kafka_purge(client, PURGE_QUEUE)
    deadline = time.monotonic() + _WAIT_MS / 1000
    while time.monotonic() < deadline:
        event = library.rd_kafka_queue_poll(queue, _WAIT_MS)
        if not event:
            continue
        try:
            message = np.zeros(1, dtype=np.uint64)
            if library.rd_kafka_event_message_array(event, message.ctypes.data, 1) == 1:
                _compare(loops, message, topic)
                return
        finally:
            library.rd_kafka_event_destroy(event)
    raise InterfaceUnavailableError("the message for the check of the layout did not come back")


def _compare(loops: Kernel, message: np.ndarray[Any, Any], topic: int) -> None:
    table = np.zeros((TABLE_ROWS, 1), dtype=np.int64)
    loops.examine(message.ctypes.data, 1, table.ctypes.data)
    found = table[:, 0]
    expected = {
        ERROR: KafkaError._PURGE_QUEUE,
        TOPIC: topic,
        PARTITION: _PARTITION,
        VALUE_BYTES: len(_CONTENT_VALUE),
        KEY_BYTES: len(_CONTENT_KEY),
        OFFSET: _NO_OFFSET,
    }
    wrong = {row: int(found[row]) for row, value in expected.items() if found[row] != value}
    contents = {KEY: _CONTENT_KEY, VALUE: _CONTENT_VALUE}
    if not wrong and all(_bytes_at(int(found[row]), len(content)) == content for row, content in contents.items()):
        return
    raise InterfaceUnavailableError(f"messages of this librdkafka are laid out in another way: {wrong or 'contents'}")


def _bytes_at(address: int, size: int) -> bytes:
    """Returns the bytes at an address, none where this process has no such address: reading it directly would crash."""
    reading, writing = os.pipe()
    try:
        written = ctypes.CDLL(None).write(writing, ctypes.c_void_p(address), ctypes.c_size_t(size))
        return os.read(reading, size) if written > 0 else b""
    finally:
        os.close(reading)
        os.close(writing)
