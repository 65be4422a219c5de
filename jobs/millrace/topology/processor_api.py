"""The Processor API: ``org.apache.kafka.streams.processor.api`` (KIP-478, KIP-820).

A supplier is any callable without arguments that returns a new processor each time, most simply the class itself. It is
sent to the workers, so it must be picklable: a class or function of a module, not an open file or a connection. Where
it has a method ``stores()`` that can be called on it (a ``staticmethod`` of the class), the stores that this returns
are added to the topology and connected to the processor.

A processor lives as long as its task stays open. What it keeps in its own fields is neither stored nor restored: after
a restart, after its task moved to another worker and after a failed batch a new one is made, and ``init`` is called
again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from millrace.errors import ProcessingError
from millrace.serdes import Serde
from millrace.topology.store_builders import StoreBuilder
from millrace.topology.windows import Duration

K = TypeVar("K")
V = TypeVar("V")
NewK = TypeVar("NewK")
NewV = TypeVar("NewV")
VOut = TypeVar("VOut")

Headers = tuple[tuple[str, bytes | None], ...]
"""Header names and values, in their order."""


@dataclass(frozen=True)
class Record(Generic[K, V]):
    """A record. Each ``with_`` method returns a changed copy.

    Args:
        key: the key.
        value: the value.
        timestamp: event time, milliseconds, 0 or more.
        headers: names and values.

    Raises:
        ProcessingError: the timestamp is negative.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = ()

    def __post_init__(self) -> None:
        _check_timestamp(self.timestamp)

    def with_key(self, key: NewK) -> Record[NewK, V]:
        """Returns a copy with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: NewV) -> Record[K, NewV]:
        """Returns a copy with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Returns a copy with another event time, milliseconds."""
        return replace(self, timestamp=timestamp)

    def with_headers(self, headers: Collection[tuple[str, bytes | None]]) -> Record[K, V]:
        """Returns a copy with these headers instead of its own."""
        return replace(self, headers=tuple(headers))


@dataclass(frozen=True)
class FixedKeyRecord(Generic[K, V]):
    """A record whose key stays. Made by the task; each ``with_`` method returns a changed copy. See :class:`Record`."""

    key: K
    value: V
    timestamp: int
    headers: Headers = ()

    def __post_init__(self) -> None:
        _check_timestamp(self.timestamp)

    def with_value(self, value: NewV) -> FixedKeyRecord[K, NewV]:
        """Returns a copy with another value."""
        return FixedKeyRecord(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """Returns a copy with another event time, milliseconds."""
        return replace(self, timestamp=timestamp)

    def with_headers(self, headers: Collection[tuple[str, bytes | None]]) -> FixedKeyRecord[K, V]:
        """Returns a copy with these headers instead of its own."""
        return replace(self, headers=tuple(headers))


def _check_timestamp(timestamp: int) -> None:
    if timestamp < 0:
        raise ProcessingError(
            f"A record has the timestamp {timestamp} ms.", remedy="give it one that is not before 1970"
        )


@dataclass(frozen=True)
class RecordMetadata:
    """The topic, partition and offset of an input record.

    Args:
        topic: its topic; that of a repartition topic with the application's prefix.
        partition: its partition.
        offset: its offset.
    """

    topic: str
    partition: int
    offset: int


class PunctuationType(StrEnum):
    """The clock by which a punctuation is due."""

    STREAM_TIME = "stream time"
    """The largest timestamp of the task's records so far. Due first after the first record; after a gap only once."""
    WALL_CLOCK_TIME = "wall clock time"
    """The system's clock, also on an idle stream. Due first one interval after it was scheduled; after a gap once."""


Punctuator = Callable[[int], Any]
"""``(timestamp in milliseconds) -> nothing``: stream time or wall clock, at which it is called."""


class Cancellable(Protocol):
    """A punctuation that was scheduled."""

    def cancel(self) -> None:
        """Ends it. May be called more than once."""


class ProcessingContext(Protocol):
    """The context that ``init`` gives to every kind of processor. Only that processor may use it, in its own thread."""

    @property
    def application_id(self) -> str:
        """``application.id``."""

    @property
    def task_id(self) -> str:
        """The task's name, for example ``1_3``: sub-topology and partition."""

    @property
    def state_dir(self) -> Path | None:
        """Directory of the task's stores; ``None`` in the test driver, which keeps them in memory."""

    @property
    def key_serde(self) -> Serde:
        """Serde of keys where none is named."""

    @property
    def value_serde(self) -> Serde:
        """Serde of values where none is named."""

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the application's configuration, by dotted key."""

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings whose key begins with ``prefix``, without it."""

    def current_stream_time_ms(self) -> int:
        """Returns the largest timestamp of the task's records so far, milliseconds; -1 before the first."""

    def current_system_time_ms(self) -> int:
        """Returns the wall clock, milliseconds."""

    def record_metadata(self) -> RecordMetadata | None:
        """Returns topic, partition and offset of the input record; ``None`` in ``init`` and in punctuations."""

    def get_state_store(self, name: str) -> Any:
        """Returns a store connected to this processor, typed by its serdes (see ``millrace.topology.state_stores``).

        Raises:
            ProcessingError: it is not connected.
        """

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Cancellable:
        """Has ``callback`` called again and again.

        Args:
            interval: time between two calls, at least 1 ms. Calls that were missed are made up for once.
            punctuation_type: by which clock.
            callback: called with the clock's time, milliseconds; it may forward and use the stores.
            start_time: when it is due first (a datetime with time zone, or milliseconds since the epoch); where that
                has passed, the next multiple of the interval after it (KIP-1146). ``None``: stream time is due
                from 0 on, the wall clock after one interval.

        Raises:
            ProcessingError: the interval is shorter than 1 ms, or ``callback`` cannot be called.
        """

    def commit(self) -> None:
        """Asks for a commit. Every batch is committed at its end in any case, within ``commit.interval.ms``."""


class ProcessorContext(ProcessingContext, Protocol):
    """Also forwards records."""

    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        """Passes a record to all children, or to the one called ``child_name``.

        Raises:
            ProcessingError: there is no such child.
        """


class FixedKeyProcessorContext(ProcessingContext, Protocol):
    """Also forwards records with the key that came."""

    def forward(self, record: FixedKeyRecord[Any, Any], child_name: str | None = None) -> None:
        """Passes a record to all children, or to the one called ``child_name``.

        Raises:
            ProcessingError: there is no such child, or the record has another key than the one that is processed.
        """


class Processor(ABC, Generic[K, V]):
    """Processes records one by one. To be subclassed: ``init`` keeps the context, and ``close`` does nothing.

    What it raises goes to the ``processing.exception.handler``; what it had forwarded and stored stays.
    """

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Prepares the processor. It is called once, before anything else, with the stores open and restored."""
        self.context = context

    @abstractmethod
    def process(self, record: Record[K, V], /) -> None:
        """Takes one record."""

    def close(self) -> None:
        """Releases what the processor holds.

        It is called when the task closes, or before a new processor replaces this one; not where the process dies.
        """


class FixedKeyProcessor(ABC, Generic[K, V]):
    """Processes records whose key stays. See :class:`Processor`."""

    context: FixedKeyProcessorContext

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Works like :meth:`Processor.init`."""
        self.context = context

    @abstractmethod
    def process(self, record: FixedKeyRecord[K, V], /) -> None:
        """Takes one record."""

    def close(self) -> None:
        """Works like :meth:`Processor.close`."""


class ValueTransformerWithKey(ABC, Generic[K, V, VOut]):
    """Gives each row of a table a new value, with stores at hand. See :class:`Processor`."""

    context: ProcessingContext

    def init(self, context: ProcessingContext) -> None:
        """Works like :meth:`Processor.init`; it cannot forward."""
        self.context = context

    @abstractmethod
    def transform(self, key: K, value: V, /) -> VOut:
        """Returns the new value; ``value`` is ``None`` for a deletion."""

    def close(self) -> None:
        """Works like :meth:`Processor.close`."""


ProcessorSupplier = Callable[[], Processor[Any, Any]]
FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[Any, Any]]
ValueTransformerWithKeySupplier = Callable[[], ValueTransformerWithKey[Any, Any, Any]]


class ConnectedStoreProvider(Protocol):
    """A supplier that brings stores along (KIP-401)."""

    def stores(self) -> Collection[StoreBuilder] | None:
        """Returns the stores to add and to connect to the processor."""

    def __call__(self) -> Any:
        """Returns a new processor."""
