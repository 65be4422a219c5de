"""Which dead-letter records were replayed: a compacted topic, written in the transaction that sends the records back.

So a dead-letter record is marked exactly when its record is back in its input topic, whatever dies when.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson

from millrace.install.connection import Connection
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import begin_offsets
from millrace.kafka.topics import TopicSpec
from millrace.operations.dead_letters.reading import records

MARKER_TOPIC = "_millrace-replayed-letters"
_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(8 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}

Position = tuple[int, int]
"""Partition and offset of a dead-letter record."""


@dataclass(frozen=True)
class Marker:
    """What is known of the replay of a dead-letter record.

    Args:
        operation: the operation that sent it back last.
        at: when, ISO 8601.
    """

    operation: str
    at: str


def replay_transactional_id(topic: str) -> str:
    """Under which records of a topic are replayed or marked as purged: one at a time does so."""
    return f"millrace-replay-{topic}"


def ensure_marker_topic(admin: KafkaAdmin) -> None:
    """Creates the topic where it is missing."""
    admin.create_missing([TopicSpec(name=MARKER_TOPIC, partitions=1, settings=_SETTINGS)])


def read_markers(connection: Connection, topic_id: str, *, settled: bool = False) -> dict[Position, Marker]:
    """The records of a dead-letter topic that were replayed.

    Args:
        connection: the cluster.
        topic_id: UUID of the topic: one that is created again has other records at the same offsets.
        settled: whether replays that are just being committed are waited for.
    """
    admin = connection.administrator()
    if not admin.describe_topics([MARKER_TOPIC]):
        return {}
    place = (MARKER_TOPIC, 0)
    markers: dict[Position, Marker] = {}
    for message in records(connection, begin_offsets(admin, [place]), settled=settled):
        identity, partition, offset = orjson.loads(message.key() or b"")
        if identity != topic_id:
            continue
        value = message.value()
        if value is None:
            markers.pop((partition, offset), None)
        else:
            markers[partition, offset] = Marker(**orjson.loads(value))
    return markers


def encode_markers(
    topic_id: str, positions: Collection[Position], marker: Marker | None
) -> Mapping[bytes, bytes | None]:
    """Keys and values of the records that mark them, or with ``None`` forget them."""
    value = None if marker is None else orjson.dumps({"operation": marker.operation, "at": marker.at})
    return {orjson.dumps([topic_id, partition, offset]): value for partition, offset in sorted(positions)}


def times_of_now(count: int) -> npt.NDArray[np.int64]:
    """The timestamps of ``count`` markers that are written now, milliseconds."""
    return np.full(count, int(time.time() * 1000), dtype=np.int64)
