"""Offsets: those a group has committed, and where the logs of partitions begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from millrace.errors import PreflightError
from millrace.kafka.clients import base_settings, kafka_error, translate

DEFAULT_TIMEOUT_S = 10.0

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Commit:
    """A committed offset.

    Args:
        offset: next offset to read.
        metadata: the text committed beside it, ``None`` where there is none.
    """

    offset: int
    metadata: str | None


def committed_offsets(
    bootstrap_servers: str,
    group: str,
    places: Sequence[Place],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[Place, Commit]:
    """What a group has committed. Waits for transactions that have sent offsets but are not decided.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        group: the consumer group.
        places: the partitions.
        settings: client settings of the user.
        timeout_s: longest time, seconds.

    Returns:
        The commits of those partitions that have one.

    Raises:
        BrokerUnavailableError: no broker answered in time.
        OperationError: the broker refused.
    """
    if not places:
        return {}
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for topic, partition in places])

    def ask(admin: AdminClient) -> Any:
        futures = admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=timeout_s)
        return futures[group].result(timeout_s + 1)

    answer = _ask(bootstrap_servers, settings, f"reading the committed offsets of group {group}", ask)
    commits: dict[Place, Commit] = {}
    for place in answer.topic_partitions:
        if place.error is not None:
            raise translate(
                place.error,
                doing=f"reading the committed offset of {place.topic}-{place.partition}",
                bootstrap_servers=bootstrap_servers,
            )
        # A missing offset is a negative number, which must never be taken for one.
        if place.offset >= 0:
            commits[place.topic, place.partition] = Commit(place.offset, place.metadata or None)
    return commits


def begin_offsets(
    bootstrap_servers: str,
    places: Iterable[Place],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[Place, int]:
    """First offset of each partition's log; raises as :func:`end_offsets`."""
    return _listed(bootstrap_servers, places, OffsetSpec.earliest(), settings, timeout_s)


def end_offsets(
    bootstrap_servers: str,
    places: Iterable[Place],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[Place, int]:
    """Last stable offset of each partition: where a read_committed reader ends now.

    Raises:
        BrokerUnavailableError: no broker answered in time.
        PreflightError: a partition does not exist.
    """
    return _listed(bootstrap_servers, places, OffsetSpec.latest(), settings, timeout_s)


def offsets_for_time(
    bootstrap_servers: str,
    places: Iterable[Place],
    timestamp_ms: int,
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[Place, int]:
    """Offset of the first record of each partition at or after a time; the log's end where there is none.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        places: the partitions.
        timestamp_ms: the time, milliseconds since the epoch.
        settings: client settings of the user.
        timeout_s: longest time, seconds.
    """
    listed = list(places)
    found = _listed(bootstrap_servers, listed, OffsetSpec.for_timestamp(timestamp_ms), settings, timeout_s)
    missing = [place for place, offset in found.items() if offset < 0]
    ends = end_offsets(bootstrap_servers, missing, settings=settings, timeout_s=timeout_s) if missing else {}
    return {place: ends.get(place, offset) for place, offset in found.items()}


def lags(
    bootstrap_servers: str,
    group: str,
    places: Sequence[Place],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[Place, int | None]:
    """How far the group is behind the last stable offset of each partition, in offsets; ``None`` where unknown.

    The committed offsets are read first: the other way round a fast consumer would be ahead of an old end.
    """
    commits = committed_offsets(bootstrap_servers, group, places, settings=settings, timeout_s=timeout_s)
    ends = end_offsets(bootstrap_servers, places, settings=settings, timeout_s=timeout_s)
    return {place: lag(commits[place].offset if place in commits else None, ends.get(place)) for place in places}


def lag(committed: int | None, end: int | None) -> int | None:
    """Offsets from ``committed`` to ``end``, never below 0; ``None`` where either is unknown."""
    if committed is None or end is None or committed < 0 or end < 0:
        return None
    return max(0, end - committed)


def _listed(
    bootstrap_servers: str,
    places: Iterable[Place],
    spec: Any,
    settings: Mapping[str, str] | None,
    timeout_s: float,
) -> dict[Place, int]:
    asked = {TopicPartition(topic, partition): spec for topic, partition in places}
    if not asked:
        return {}

    def ask(admin: AdminClient) -> dict[Place, int]:
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_s)
        return {
            (place.topic, place.partition): future.result(timeout_s + 1).offset for place, future in futures.items()
        }

    names = ", ".join(sorted({place.topic for place in asked}))
    return _ask(bootstrap_servers, settings, f"asking for offsets of {names}", ask)


def _ask(
    bootstrap_servers: str, settings: Mapping[str, str] | None, doing: str, ask: Callable[[AdminClient], Any]
) -> Any:
    try:
        return ask(AdminClient(base_settings(bootstrap_servers, settings)))
    except KafkaException as error:
        if kafka_error(error).name() == "UNKNOWN_TOPIC_OR_PART":
            raise PreflightError(
                f"A topic or partition is missing on the broker at {bootstrap_servers} while {doing}.",
                remedy="create the topic (millrace topics create), or correct its name",
            ) from error
        raise translate(kafka_error(error), doing=doing, bootstrap_servers=bootstrap_servers) from error
