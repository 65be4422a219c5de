"""The answers of a user's partitioner: one partition, several (KIP-837), none, or that the key decides."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

Partitioner = Callable[[str, Any, Any, int], int | Collection[int] | None]
"""``(topic, key, value, number of partitions) -> partition``, from 0.

It may return a set or list of partitions: the record is written to each of them, to none if it is empty, which drops
and counts it (``no_partition``). ``None`` takes the murmur2 hash of the key's bytes. It is what
``StreamPartitioner#partitions`` returns in Kafka Streams, with its ``Optional``.
"""

DEFAULT_PARTITION = -1
"""Stands for the partition that the hash of the key gives."""


class InvalidPartitionError(ValueError):
    """A partitioner's answer is no partition, or one that the topic does not have. Its text is the answer."""


def chosen_partitions(answer: Any, count: int) -> list[int]:
    """Returns the partitions that an answer names: each once; ``DEFAULT_PARTITION`` where the key decides.

    Args:
        answer: what the partitioner returned.
        count: number of partitions of the topic.

    Raises:
        InvalidPartitionError: it names no partition of the topic, or is nothing that a partitioner may return.
    """
    if answer is None:
        return [DEFAULT_PARTITION]
    if isinstance(answer, set | frozenset | list | tuple):
        # A set has no order of its own.
        found = [_number(each, count) for each in answer]
        return sorted(set(found)) if isinstance(answer, set | frozenset) else list(dict.fromkeys(found))
    return [_number(answer, count)]


def only_partition(answer: Any) -> Any:
    """Returns an answer that may name one partition only: the topics of foreign-key joins.

    Raises:
        InvalidPartitionError: it names several, or none.
    """
    if not isinstance(answer, set | frozenset | list | tuple):
        return answer
    if len(answer) != 1:
        raise InvalidPartitionError(f"the partitions {sorted(answer)}, and a foreign-key join needs exactly one,")
    return next(iter(answer))


def _number(answer: Any, count: int) -> int:
    try:
        partition = operator.index(answer)
    except TypeError as error:
        raise InvalidPartitionError(f"{answer!r}, which is no partition,") from error
    if isinstance(answer, bool) or not 0 <= partition < count:
        raise InvalidPartitionError(f"partition {answer!r}")
    return partition
