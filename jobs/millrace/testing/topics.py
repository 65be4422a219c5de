"""Input and output topics of the test driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from millrace.serdes import Serde
from millrace.task.input import InputBatch
from millrace.task.records import Headers, object_array
from millrace.topology.arguments import checks_arguments
from millrace.topology.windows import Duration, to_milliseconds


@dataclass(frozen=True)
class TestRecord:
    """A record as tests write and read it.

    Args:
        key: the key, ``None`` for a null key.
        value: the value, ``None`` for a null value.
        timestamp: milliseconds; ``None`` on input takes the topic's own clock.
        headers: (name, value) pairs, in order.
        partition: of what was read, the partition that a partitioner chose; ``None`` where the key's hash decides. It
            does not count when records are compared.
    """

    __test__: ClassVar[bool] = False  # pytest must not take it for a test class

    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RawRecord:
    """A record as bytes; ``partition`` is that which a partitioner chose."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int | None = None


def decoded(raw: RawRecord, key_serde: Serde, value_serde: Serde) -> TestRecord:
    """Returns the record with its key and value read."""
    return TestRecord(
        None if raw.key is None else key_serde.deserialize(raw.key),
        None if raw.value is None else value_serde.deserialize(raw.value),
        raw.timestamp,
        raw.headers,
        raw.partition,
    )


def input_batch(topics: tuple[str, ...], records: Sequence[tuple[str, int, RawRecord]]) -> InputBatch:
    """Records (topic, offset, record) of partition 0 as a task's input, over the topics ``topics``."""
    headers = [record.headers or None for _, _, record in records]
    return InputBatch(
        topics=topics,
        topic=np.array([topics.index(topic) for topic, _, _ in records], dtype=np.int64),
        partition=np.zeros(len(records), dtype=np.int64),
        offset=np.array([offset for _, offset, _ in records], dtype=np.int64),
        timestamp=np.array([record.timestamp for _, _, record in records], dtype=np.int64),
        keys=pa.array([record.key for _, _, record in records], type=pa.binary()),
        values=pa.array([record.value for _, _, record in records], type=pa.binary()),
        headers=object_array(headers) if any(headers) else None,
    )


@checks_arguments
class TestInputTopic:
    """Pipes records into a topology. Made by ``TopologyTestDriver.create_input_topic``.

    Args:
        name: name of the topic.
        pipe: takes a list of raw records as one batch.
        key_serde: how keys are written; the same for ``value_serde``.
        start_timestamp: timestamp of the first record that names none, milliseconds.
        auto_advance: how much later each further record that names none is.
    """

    __test__: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        pipe: Callable[[list[RawRecord]], None],
        *,
        key_serde: Serde,
        value_serde: Serde,
        start_timestamp: int = 0,
        auto_advance: Duration = 0,
    ) -> None:
        self.name = name
        self._pipe = pipe
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._clock = start_timestamp
        self._auto_advance = to_milliseconds(auto_advance)

    def pipe_input(self, key: Any, value: Any, timestamp: int | None = None, headers: Headers | None = None) -> None:
        """Pipes one record and processes it wholly, as a batch of its own.

        Args:
            key: the key.
            value: the value.
            timestamp: milliseconds; ``None`` takes the topic's clock and advances it.
            headers: (name, value) pairs.
        """
        self._pipe([self.raw(TestRecord(key, value, timestamp, headers or []))])

    def pipe_records(self, records: Sequence[TestRecord]) -> None:
        """Pipes records one after the other, each as a batch of its own."""
        for record in records:
            self._pipe([self.raw(record)])

    def pipe_key_values(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Pipes (key, value) pairs one after the other, at the topic's clock, which advances for each."""
        for key, value in pairs:
            self.pipe_input(key, value)

    def pipe_values(self, values: Sequence[Any]) -> None:
        """Pipes values without keys one after the other, at the topic's clock, which advances for each."""
        for value in values:
            self.pipe_input(None, value)

    def advance_time(self, duration: Duration) -> None:
        """Moves the topic's clock, which gives records their timestamps, ahead."""
        self._clock += to_milliseconds(duration)

    def pipe_batch(self, records: Sequence[TestRecord]) -> None:
        """Pipes records as one batch, as a commit takes what has come."""
        self._pipe([self.raw(record) for record in records])

    def raw(self, record: TestRecord) -> RawRecord:
        """Returns the record as bytes; one without a timestamp takes the topic's clock and advances it."""
        timestamp = record.timestamp
        if timestamp is None:
            timestamp = self._clock
            self._clock += self._auto_advance
        return RawRecord(
            None if record.key is None else self._key_serde.serialize(record.key),
            None if record.value is None else self._value_serde.serialize(record.value),
            timestamp,
            list(record.headers),
        )


class TestOutputTopic:
    """Reads what a topology wrote to a topic. Made by ``TopologyTestDriver.create_output_topic``."""

    __test__: ClassVar[bool] = False

    def __init__(self, name: str, queue: deque[RawRecord], *, key_serde: Serde, value_serde: Serde) -> None:
        self.name = name
        self._queue = queue
        self._key_serde = key_serde
        self._value_serde = value_serde

    @property
    def is_empty(self) -> bool:
        """Whether everything was read."""
        return not self._queue

    def read_record(self) -> TestRecord:
        """Takes the next record.

        Raises:
            IndexError: there is none.
        """
        if not self._queue:
            raise IndexError(f"No record is left in topic {self.name}.")
        return decoded(self._queue.popleft(), self._key_serde, self._value_serde)

    def read_value(self) -> Any:
        """Takes the next record and returns its value.

        Raises:
            IndexError: there is none.
        """
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Takes the next record and returns its key and value.

        Raises:
            IndexError: there is none.
        """
        record = self.read_record()
        return record.key, record.value

    @property
    def queue_size(self) -> int:
        """The number of records that were not read yet."""
        return len(self._queue)

    def read_values(self) -> list[Any]:
        """Takes all records and returns their values."""
        return [record.value for record in self.read_records()]

    def read_records(self) -> list[TestRecord]:
        """Takes all records."""
        return [self.read_record() for _ in range(len(self._queue))]

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Takes all records as (key, value) pairs."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Takes all records and returns the last value of each key; a null value stays as ``None``."""
        return dict(self.read_key_values())
