"""Avro's logical types: from the number, text or bytes that is written to a Python object and back.

Each pair gives the same back: where the Python type cannot hold what was written, the object is another one that does
(:class:`~millrace.serdes.times.BeyondDatetime`, a decimal that keeps its bytes, the text of a malformed UUID).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, localcontext
from typing import Any
from uuid import UUID

import numpy as np

from millrace.avro_branches import AvroDecimal, with_bytes
from millrace.serdes.avro_schema import AvroType
from millrace.serdes.times import BeyondDatetime, TimeUnit

EXACT, LOOSE = 0, 1
"""How well a value fits a type: as what is read from it, or after a conversion. A union prefers the first."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 - local timestamps have no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = 86_400_000_000
_UNLIMITED = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Units of each unit in a second.
_PER_SECOND: dict[str, int] = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

FromRaw = Callable[[Any], Any]
ToRaw = Callable[[Any], tuple[Any, int]]
"""A value to what is written, and how well it fits; raises ``ValueError`` where it does not."""


def unit_of(logical: str | None) -> TimeUnit | None:
    """Returns the unit of a date's, time's or timestamp's number."""
    if logical == "date":
        return "D"
    units: dict[str, TimeUnit] = {"millis": "ms", "micros": "us", "nanos": "ns"}
    return None if logical is None else units.get(logical.rpartition("-")[2])


def kind_of(logical: str | None) -> str | None:
    """Returns ``date``, ``time``, ``timestamp`` or ``local-timestamp``."""
    if unit_of(logical) is None or logical is None:
        return None
    return logical if logical == "date" else logical.rpartition("-")[0]


def from_raw(kind: AvroType) -> FromRaw | None:
    """Returns a function that makes objects of a logical type's numbers, text or bytes.

    It is ``None`` for values that stay as they are.

    Timestamps of nanoseconds do: ``datetime`` has only microseconds.
    """
    logical = kind.logical
    unit = unit_of(logical)
    if unit is not None and unit != "ns":
        return _date_from_raw if logical == "date" else _time_from_raw(unit, kind_of(logical) or "")
    if logical == "decimal":
        return _decimal_from_raw(kind)
    if logical == "uuid":
        return _uuid_from_raw
    return None


def to_raw(kind: AvroType) -> ToRaw | None:
    """Returns the inverse of :func:`from_raw`; ``None`` for types without a logical type."""
    logical = kind.logical
    if logical is None:
        return None
    if logical == "decimal":
        return _decimal_to_raw(kind)
    if logical == "uuid":
        return _uuid_to_raw
    if logical == "date":
        return _date_to_raw
    unit, own = unit_of(logical), kind_of(logical)
    assert unit is not None
    assert own is not None
    return _time_to_raw(unit) if own == "time" else _timestamp_to_raw(unit, own)


def _date_from_raw(days: int) -> Any:
    try:
        return date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        return BeyondDatetime(days, unit="D", kind="date")


def _time_from_raw(unit: TimeUnit, kind: str) -> FromRaw:
    factor = 1_000 if unit == "ms" else 1

    def time_of_day(number: int) -> Any:
        micros = number * factor
        if not 0 <= micros < _DAY_US:
            return BeyondDatetime(number, unit=unit, kind=kind)
        seconds, micros = divmod(micros, 1_000_000)
        return time(seconds // 3_600, seconds // 60 % 60, seconds % 60, micros)

    def timestamp(number: int) -> Any:
        try:
            return epoch + timedelta(microseconds=number * factor)
        except OverflowError:
            return BeyondDatetime(number, unit=unit, kind=kind)

    epoch = _EPOCH if kind == "timestamp" else _EPOCH_LOCAL
    return time_of_day if kind == "time" else timestamp


def _decimal_from_raw(kind: AvroType) -> FromRaw:
    scale, largest, fixed = -kind.scale, 10**kind.precision, kind.kind == "fixed"

    def decimal(data: bytes) -> Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        number = Decimal(unscaled).scaleb(scale, _UNLIMITED)
        if -largest < unscaled < largest and (fixed or len(data) == _bytes_needed(unscaled)):
            return number
        return with_bytes(number, data)

    return decimal


def _uuid_from_raw(text: str) -> Any:
    try:
        number = UUID(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def _raw_number(value: Any, kind: str, unit: str) -> tuple[int, int]:
    if isinstance(value, BeyondDatetime):
        if (value.kind, value.unit) != (kind, unit):
            raise ValueError(f" is {value!r}, not a {kind} in {unit}")
        return int(value), EXACT
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value), LOOSE
    raise ValueError(f" is {value!r}, not a {kind}")


def _date_to_raw(value: Any) -> tuple[int, int]:
    if isinstance(value, date):
        return value.toordinal() - _EPOCH_DAY, LOOSE if isinstance(value, datetime) else EXACT
    if isinstance(value, str):
        try:
            return date.fromisoformat(value).toordinal() - _EPOCH_DAY, LOOSE
        except ValueError as error:
            raise ValueError(f" is {value!r}, not a date") from error
    return _raw_number(value, "date", "D")


def _time_to_raw(unit: TimeUnit) -> ToRaw:
    per_second = _PER_SECOND[unit]

    def convert(value: Any) -> tuple[int, int]:
        if isinstance(value, time):
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds * per_second + value.microsecond * per_second // 1_000_000, EXACT
        return _raw_number(value, "time", unit)

    return convert


def _timestamp_to_raw(unit: TimeUnit, kind: str) -> ToRaw:
    per_second = _PER_SECOND[unit]
    fits = LOOSE if unit == "ns" else EXACT

    def convert(value: Any) -> tuple[int, int]:
        if not isinstance(value, datetime):
            number, fit = _raw_number(value, kind, unit)
            return number, EXACT if unit == "ns" else fit
        zoned = value.tzinfo is not None
        if kind == "timestamp":
            # A time without a zone is the machine's, as for Python itself.
            micros = ((value if zoned else value.astimezone()) - _EPOCH) // _MICROSECOND
        else:
            micros = (value.replace(tzinfo=None) - _EPOCH_LOCAL) // _MICROSECOND
        if unit == "ns":
            # pandas' timestamps are datetimes with nanoseconds.
            return micros * 1_000 + getattr(value, "nanosecond", 0), fits
        return micros * per_second // 1_000_000, fits if zoned == (kind == "timestamp") else LOOSE

    return convert


def _decimal_to_raw(kind: AvroType) -> ToRaw:
    scale, precision = kind.scale, kind.precision
    size = kind.size if kind.kind == "fixed" else None

    def convert(value: Any) -> tuple[bytes, int]:
        if isinstance(value, bytes | bytearray):
            return bytes(value), LOOSE
        if not isinstance(value, Decimal) or not value.is_finite():
            raise ValueError(f" is {value!r}, not a decimal")
        if isinstance(value, AvroDecimal) and value.avro_bytes is not None and _same(value, scale, size):
            return value.avro_bytes, EXACT
        unscaled = _unscaled(value, scale, precision)
        if unscaled is None:
            raise ValueError(f" is {value!r}, which has more than {precision} digits, or {scale} after the point")
        return unscaled.to_bytes(_bytes_needed(unscaled) if size is None else size, "big", signed=True), EXACT

    return convert


def _same(value: AvroDecimal, scale: int, size: int | None) -> bool:
    data = value.avro_bytes
    assert data is not None
    return value.as_tuple().exponent == -scale and (size is None or len(data) == size)


def _unscaled(value: Decimal, scale: int, precision: int) -> int | None:
    """The number times ten to the power of ``scale``, if that is an integer of at most ``precision`` digits."""
    if value.adjusted() + scale >= precision and value != 0:
        return None
    with localcontext(_UNLIMITED):
        scaled = value.scaleb(scale)
        # Far below one it has no integer but zero; far above one it has been refused.
        if scaled.adjusted() < 0 and value != 0:
            return None
        unscaled = int(scaled)
        return unscaled if scaled == unscaled and abs(unscaled) < 10**precision else None


def _bytes_needed(unscaled: int) -> int:
    # One bit more for the sign; of negative numbers -128 takes as many as 127.
    return ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8


def _uuid_to_raw(value: Any) -> tuple[str, int]:
    if isinstance(value, UUID):
        return str(value), EXACT
    if isinstance(value, str):
        return value, LOOSE
    raise ValueError(f" is {value!r}, not a UUID")
