"""Event time from a field of the value, in columns where the values are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import ProcessingError, TopologyError
from millrace.serdes.times import BeyondDatetime
from millrace.topology.arguments import checks_arguments
from millrace.topology.timestamp_extractors import (
    ExtractRecordMetadataTimestamp,
    FailOnInvalidTimestamp,
    Timestamps,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_INVALID = -1
_TIMESTAMPS = ("timestamp", "local-timestamp")
_LONGEST = 2**63 - 1
_SHORTEST = -(2**63)
# Each unit's factor and divisor to milliseconds.
_UNITS: dict[str, tuple[int, int]] = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}


@dataclass(frozen=True)
class FieldTimestamp:
    """See :func:`field_timestamp`."""

    path: tuple[str, ...]
    unit: str = "ms"
    on_invalid: ExtractRecordMetadataTimestamp = field(default_factory=FailOnInvalidTimestamp)

    def __post_init__(self) -> None:
        if not self.path or not all(isinstance(name, str) and name for name in self.path):
            raise TopologyError(f"A timestamp's field has a name, not {self.path!r}.")
        if self.unit not in _UNITS:
            raise TopologyError(f"The unit of {'.'.join(self.path)} is one of {list(_UNITS)}, not {self.unit!r}.")
        if not isinstance(self.on_invalid, ExtractRecordMetadataTimestamp):
            raise TopologyError(
                f"on_invalid is {self.on_invalid!r}, which does not say what follows an invalid timestamp.",
                remedy="pass FailOnInvalidTimestamp(), LogAndSkipOnInvalidTimestamp() or "
                "UsePartitionTimeOnInvalidTimestamp()",
            )

    def __call__(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns the field's time, milliseconds.

        Raises:
            ProcessingError: it is no time, and ``on_invalid`` does not let that pass.
        """
        found = value
        for name in self.path:
            found = found.get(name) if isinstance(found, Mapping) else None
        event_time = self._milliseconds(found)
        return event_time if event_time >= 0 else self.on_invalid_timestamp(key, value, event_time, partition_time)

    def on_invalid_timestamp(self, key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        """Returns what ``on_invalid`` makes of it."""
        try:
            return self.on_invalid.on_invalid_timestamp(key, value, timestamp, partition_time)
        except ProcessingError as error:
            raise ProcessingError(f"field {'.'.join(self.path)}: {error.message}", remedy=error.remedy) from error

    def extract_column(self, values: pa.Array | None, timestamps: Timestamps) -> Timestamps | None:
        """Returns the field's times; -1 where it has none."""
        if values is None:
            return None
        column = _field_of(values, self.path)
        return np.full(len(timestamps), _INVALID, dtype=np.int64) if column is None else self._milliseconds_of(column)

    def _milliseconds_of(self, column: pa.Array) -> Timestamps | None:
        kinds = pa.types
        if kinds.is_timestamp(column.type):
            return _scaled(column.cast(pa.int64()), *_UNITS[column.type.unit])
        if kinds.is_uint64(column.type):
            return None
        if kinds.is_integer(column.type):
            return _scaled(column.cast(pa.int64()), *_UNITS[self.unit])
        if kinds.is_floating(column.type) or kinds.is_decimal(column.type):
            return _scaled_floats(column.cast(pa.float64()), *_UNITS[self.unit])
        return np.full(len(column), _INVALID, dtype=np.int64)

    def _milliseconds(self, value: Any) -> int:
        factor, divisor = _UNITS[self.unit]
        if isinstance(value, bool):
            return _INVALID
        if isinstance(value, BeyondDatetime):
            return value.nanoseconds // 1_000_000 if value.kind in _TIMESTAMPS else _INVALID
        if isinstance(value, int | np.integer):
            scaled = int(value) * factor // divisor
            return scaled if _SHORTEST <= scaled <= _LONGEST else _INVALID
        # A decimal is what JSON has where a double does not hold its digits.
        if isinstance(value, float | np.floating | Decimal):
            product = float(value) * factor / divisor
            return math.floor(product) if 0 <= product < _LONGEST else _INVALID
        if isinstance(value, datetime):
            return int(((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND)
        return _INVALID


@checks_arguments
def field_timestamp(
    *path: str, unit: str = "ms", on_invalid: ExtractRecordMetadataTimestamp | None = None
) -> FieldTimestamp:
    """Returns an extractor of event time from a field of the value.

    Where values are in columns, nothing is called for each record.

    Example::

        Consumed.with_(StringSerde(), ORDER).with_timestamp_extractor(field_timestamp("at"))

    The field is a number, or a date and time (of Avro's logical types, for example; without a zone it is UTC).
    Fractions of a millisecond are cut off downwards. A field that is missing, null, of another type or before 1970 is
    an invalid timestamp.

    Args:
        path: name of the field; of a field in a nested record all names from the outermost on.
        unit: of numbers since the epoch: ``s``, ``ms``, ``us`` or ``ns``.
        on_invalid: what follows an invalid timestamp: ``FailOnInvalidTimestamp()`` (default),
            ``LogAndSkipOnInvalidTimestamp()``, ``UsePartitionTimeOnInvalidTimestamp()``, or an
            ``ExtractRecordMetadataTimestamp`` of your own.

    Raises:
        TopologyError: there is no name, or no such unit.
    """
    return FieldTimestamp(path, unit, on_invalid or FailOnInvalidTimestamp())


def _field_of(values: pa.Array, path: tuple[str, ...]) -> pa.Array | None:
    column = values
    for name in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return column


def _scaled(column: pa.Array, factor: int, divisor: int) -> Timestamps:
    numbers, valid = _filled(column)
    valid &= (numbers >= -(-_SHORTEST // factor)) & (numbers <= _LONGEST // factor)
    return np.where(valid, np.where(valid, numbers, 0) * factor // divisor, _INVALID).astype(np.int64)


def _scaled_floats(column: pa.Array, factor: int, divisor: int) -> Timestamps:
    numbers, valid = _filled(column)
    products = numbers * factor / divisor
    valid &= (products >= 0) & (products < _LONGEST)
    return np.where(valid, np.floor(np.where(valid, products, 0)), _INVALID).astype(np.int64)


def _filled(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), valid.copy()
