"""Messages of a consumer of our own as rows of a task's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from millrace.task.input import InputBatch
from millrace.task.records import object_array

_NO_TIMESTAMP = -1


def input_rows(messages: Sequence[Message], topics: tuple[str, ...]) -> InputBatch:
    """The messages, none of which is an error, in their order.

    Args:
        messages: of any of the topics.
        topics: names that the rows' topic column counts.
    """
    size = len(messages)
    numbers = {topic: number for number, topic in enumerate(topics)}
    headers = [message.headers() or None for message in messages]
    stamps = [message.timestamp() for message in messages]
    return InputBatch(
        topics=topics,
        topic=np.fromiter((numbers[message.topic() or ""] for message in messages), dtype=np.int64, count=size),
        partition=np.fromiter((message.partition() for message in messages), dtype=np.int64, count=size),
        offset=np.fromiter((message.offset() for message in messages), dtype=np.int64, count=size),
        timestamp=np.array([time_ms if kind else _NO_TIMESTAMP for kind, time_ms in stamps], dtype=np.int64),
        keys=pa.array([message.key() for message in messages], type=pa.binary()),
        values=pa.array([message.value() for message in messages], type=pa.binary()),
        headers=object_array(headers) if any(headers) else None,
    )
