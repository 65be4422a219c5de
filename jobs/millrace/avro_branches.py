"""Values that remember which branch of an Avro union they were read from, where nothing else about them says it.

Avro writes the number of the branch, so it is part of the value. A dictionary that could be two records, or a number
that could be an ``int`` and a ``long``, is read as a subclass of its type with one attribute more, so that user code
handles it as the plain value, and the serde writes the branch that it read.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class _Branched:
    avro_branch: str | None = None

    def _plain(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        # The branch is part of the value; to a plain one it says nothing.
        if isinstance(other, _Branched) and other.avro_branch != self.avro_branch:
            return False
        return bool(super().__eq__(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Those of datetime and Decimal leave attributes out.
        return (with_branch, (self._plain(), self.avro_branch))


class _BranchedDict(_Branched, dict[str, Any]):  # type: ignore[misc]  # as a dict it has no hash
    def _plain(self) -> dict[str, Any]:
        return dict(self)

    def copy(self) -> dict[str, Any]:
        return with_branch(dict(self), self.avro_branch)

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __or__(self, other: Any) -> Any:
        joined = super().__or__(other)
        return joined if joined is NotImplemented else with_branch(dict(joined), self.avro_branch)


class _BranchedList(_Branched, list[Any]):  # type: ignore[misc]  # as a list it has no hash
    def _plain(self) -> list[Any]:
        return list(self)


class _BranchedInt(_Branched, int):
    def _plain(self) -> int:
        return int(self)


class _BranchedFloat(_Branched, float):
    def _plain(self) -> float:
        return float(self)


class _BranchedStr(_Branched, str):
    def _plain(self) -> str:
        return str.__str__(self)


class _BranchedBytes(_Branched, bytes):
    def _plain(self) -> bytes:
        return bytes(self)


class _BranchedDate(_Branched, date):
    def _plain(self) -> date:
        return date(self.year, self.month, self.day)


class _BranchedDatetime(_Branched, datetime):
    def _plain(self) -> datetime:
        return datetime.combine(self.date(), self.timetz())


class _BranchedTime(_Branched, time):
    def _plain(self) -> time:
        return time(self.hour, self.minute, self.second, self.microsecond)


class AvroDecimal(_Branched, Decimal):
    """A decimal that remembers the bytes it was read from, where writing its number would give others.

    That is so beyond its schema's precision, and with more bytes than the number needs.
    """

    avro_bytes: bytes | None = None

    def _plain(self) -> Decimal:
        return Decimal(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_decimal, (Decimal(self), self.avro_branch, self.avro_bytes))

    def __copy__(self) -> AvroDecimal:
        return self

    def __deepcopy__(self, memo: Any) -> AvroDecimal:
        return self


_CLASSES: dict[type, type[_Branched]] = {
    dict: _BranchedDict,
    list: _BranchedList,
    int: _BranchedInt,
    float: _BranchedFloat,
    str: _BranchedStr,
    bytes: _BranchedBytes,
    Decimal: AvroDecimal,
}


def with_branch(value: _Value, branch: str | None) -> _Value:
    """Returns ``value`` with the name of its branch; itself where its type alone says it (``None``, booleans, UUIDs).

    Args:
        value: a plain value, as a serde of Avro reads it.
        branch: full name of a record, enum or fixed, else the kind, such as ``long``.
    """
    made = _branched(value)
    if made is None:
        return value
    made.avro_branch = branch
    result: _Value = made
    return result


def _branched(value: Any) -> Any:
    """``value`` as one of the classes above, or ``None``."""
    kind = type(value)
    if kind in _CLASSES:
        return _CLASSES[kind](value)  # type: ignore[call-arg]
    if kind is AvroDecimal:
        return value
    if kind is datetime:
        return _BranchedDatetime.combine(value.date(), value.timetz())
    if kind is date:
        return _BranchedDate(value.year, value.month, value.day)
    if kind is time:
        return _BranchedTime(value.hour, value.minute, value.second, value.microsecond)
    return None


def with_bytes(number: Decimal, data: bytes) -> AvroDecimal:
    """Returns ``number`` with the bytes that it was read from."""
    return _decimal(number, None, data)


def without_branch(value: Any) -> Any:
    """Returns ``value`` as a plain object of its type, if it has a branch; what it holds stays as it is."""
    return value._plain() if isinstance(value, _Branched) else value


def branch_of(value: Any) -> str | None:
    """Returns the branch that ``value`` was read from, where its type alone does not say it."""
    return value.avro_branch if isinstance(value, _Branched) else None


def _decimal(number: Decimal, branch: str | None, data: bytes | None) -> AvroDecimal:
    made = AvroDecimal(number)
    made.avro_branch = branch
    made.avro_bytes = data
    return made
