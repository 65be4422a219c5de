"""Topics that are chosen for each record: ``org.apache.kafka.streams.processor.TopicNameExtractor`` (KIP-303)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow.compute as pc

from millrace.topology.processor_api import Headers


@dataclass(frozen=True)
class RecordContext:
    """The context of a record, which an extractor gets besides its key and value.

    Args:
        topic: topic of the input record that it comes from, ``None`` where it comes from none (punctuation).
        partition: that record's partition, otherwise -1.
        offset: that record's offset, otherwise -1.
        timestamp: the record's own event time, milliseconds.
        headers: the record's own headers.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers = ()


TopicNameExtractor: TypeAlias = Callable[[Any, Any, RecordContext], str] | pc.Expression
"""``(key, value, context) -> topic``, or a pyarrow expression that gives the topic's name."""


def extractor_text(extractor: TopicNameExtractor) -> str:
    """Returns the name that ``describe()`` and pictures give an extractor. An object's is its own text.

    The same in every process, so that it may be part of the fingerprint.
    """
    if isinstance(extractor, pc.Expression):
        return str(extractor)
    name: str | None = getattr(extractor, "__qualname__", None)
    if name is not None:
        return name
    kind = type(extractor)
    has_text = any("__str__" in each.__dict__ or "__repr__" in each.__dict__ for each in kind.__mro__[:-1])
    # The text of a partial function has an address in it.
    return str(extractor) if has_text and kind is not functools.partial else kind.__qualname__
