"""Dates and times that Python's ``datetime`` cannot hold, and columns of them as Python objects."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

import pyarrow as pa

TimeUnit = Literal["D", "s", "ms", "us", "ns"]
_NANOSECONDS: dict[str, int] = {"D": 86_400_000_000_000, "s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 - local timestamps have no zone
_MICROSECOND = timedelta(microseconds=1)


class BeyondDatetime(int):
    """A date or time outside of what ``datetime`` holds (years 1 to 9999; a time of day below 24 hours).

    It is the number of units since the epoch, or since midnight, as it came; written again, it gives the same bytes. It
    compares with the ``date``, ``datetime`` and ``time`` that it stands in for: a timestamp of the year 10000 is later
    than each of them.

    Args:
        count: units since 1970-01-01, or since midnight.
        unit: ``D``, ``s``, ``ms``, ``us`` or ``ns``.
        kind: ``date``, ``time``, ``timestamp`` (of UTC) or ``local-timestamp``.
    """

    unit: TimeUnit
    kind: str

    def __new__(cls, count: int, *, unit: TimeUnit, kind: str) -> BeyondDatetime:
        """Makes the value as the class says."""
        made = super().__new__(cls, count)
        made.unit = unit
        made.kind = kind
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made, (int(self), self.unit, self.kind))

    def __repr__(self) -> str:
        return f"BeyondDatetime({int(self)}, unit={self.unit!r}, kind={self.kind!r})"

    @property
    def nanoseconds(self) -> int:
        """The same in nanoseconds."""
        return int(self) * _NANOSECONDS[self.unit]

    def __lt__(self, other: Any) -> bool:
        mine, its = self._both(other)
        return NotImplemented if its is None else mine < its

    def __le__(self, other: Any) -> bool:
        mine, its = self._both(other)
        return NotImplemented if its is None else mine <= its

    def __gt__(self, other: Any) -> bool:
        mine, its = self._both(other)
        return NotImplemented if its is None else mine > its

    def __ge__(self, other: Any) -> bool:
        mine, its = self._both(other)
        return NotImplemented if its is None else mine >= its

    def __eq__(self, other: object) -> bool:
        mine, its = self._both(other)
        return False if its is None else mine == its

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(int(self))

    def _both(self, other: Any) -> tuple[Any, Any]:
        if isinstance(other, BeyondDatetime):
            return self.nanoseconds, other.nanoseconds if other.kind == self.kind else None
        if isinstance(other, int | float):
            return int(self), other
        return self.nanoseconds, _nanoseconds(other, self.kind)


def _made(count: int, unit: TimeUnit, kind: str) -> BeyondDatetime:
    return BeyondDatetime(count, unit=unit, kind=kind)


def _nanoseconds(value: Any, kind: str) -> int | None:
    """A date or time in nanoseconds since the epoch or midnight, if it is of that kind."""
    if isinstance(value, datetime):
        if kind == "timestamp" and value.tzinfo is not None:
            return (value - _EPOCH) // _MICROSECOND * 1_000
        if kind == "local-timestamp" and value.tzinfo is None:
            return (value - _EPOCH_LOCAL) // _MICROSECOND * 1_000
        return None
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * _NANOSECONDS["D"] if kind == "date" else None
    if isinstance(value, time) and kind == "time":
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) * 1_000
    return None


def python_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column as Python objects.

    Dates and timestamps that ``datetime`` does not hold are :class:`BeyondDatetime`, where ``to_pylist`` fails.
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        if not _has_times(column.type):
            raise
        return _one_by_one(column)
    return values


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_temporal(kind):
        return True
    return any(_has_times(kind.field(index).type) for index in range(kind.num_fields))


def _one_by_one(column: pa.Array) -> list[Any]:
    kind = column.type
    if not _has_times(kind):
        return python_values(column)
    kinds = pa.types
    if kinds.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*(_one_by_one(child) for child in column.flatten()), strict=True)
        valid = column.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if here else None for row, here in zip(rows, valid, strict=True)]
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        items = _one_by_one(column.values)
        bounds = column.offsets.to_pylist()
        valid = column.is_valid().to_pylist()
        return [items[bounds[row] : bounds[row + 1]] if here else None for row, here in enumerate(valid)]
    return [_object_of(scalar) for scalar in column]


def _object_of(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        kind = scalar.type
        if pa.types.is_date32(kind):
            return BeyondDatetime(scalar.value, unit="D", kind="date")
        if pa.types.is_timestamp(kind):
            zoned = "timestamp" if kind.tz else "local-timestamp"
            return BeyondDatetime(scalar.value, unit=kind.unit, kind=zoned)
        raise
