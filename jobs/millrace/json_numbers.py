"""Numbers of JSON that orjson would change: integers of more than 64 bits, and decimals that no double is written as.

orjson and Arrow read both as the nearest double. Whether a value has one is found in its text, by the length of its
digits; only such values are read again, by a parser that keeps every number.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from millrace.avro_branches import without_branch

_EXACT_DIGITS = 15
"""Decimals of so many digits come back from the nearest double, unless they are next to nothing."""
_LONGEST_INTEGER = 308
"""orjson and Arrow refuse longer ones."""
_DOUBLE_DIGITS = 17
"""A double is written with so many digits at most."""
_SMALLEST_NORMAL = 2.0**-1022
_EXACT_IN_DOUBLE = 2.0**53
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1

# With all digits and points as zeros: a number of 16 digits, and an exponent of three with a minus.
_LONG, _TINY = b"0" * (_EXACT_DIGITS + 1), b"e-000"
_TO_ZERO = bytes.maketrans(b"123456789.E", b"0" * 10 + b"e")
_NUMBER = re.compile(rb"[0-9.]+(?:[eE][+-]?[0-9]+)?")
_EXPONENT = re.compile(rb"[eE][+-]?[0-9]+")
_STRIDE, _IN_A_ROW = 4, 4
"""A run of 16 covers four in a row of the places that are multiples of four."""
_FEW = 100


class WrittenFloat(float):
    """A double together with the digits it was read from, which are not those that it is written with.

    ``0.10000000000000001`` is the double ``0.1``, but another number. It computes as the double; JSON and ``str`` give
    the digits.
    """

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        """Makes the value as the class says."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (WrittenFloat, (self.text,))

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def loads(data: bytes | str) -> Any:
    """Returns the value of a JSON text, with each number as it is written.

    Integers have up to 308 digits. A decimal is a ``float`` where that is written back as the same number, a
    :class:`WrittenFloat` up to 17 digits, else a ``Decimal``.

    Raises:
        ValueError: it is not JSON, or has a number too large for a double that is no integer.
    """
    value = orjson.loads(data)
    text = data.encode() if isinstance(data, str) else data
    return loads_exactly(text) if has_inexact(text) else value


def has_inexact(data: bytes) -> bool:
    """Returns whether a JSON text may have a number that orjson changes."""
    zeros = data.translate(_TO_ZERO)
    if _TINY in zeros:
        return True
    start = zeros.find(_LONG)
    if start < 0:
        return False
    numbers = []
    while start >= 0:
        number = _NUMBER.match(data, start)
        assert number is not None
        # A minus counts: an integer of 64 bits may be one of 65 with it.
        numbers.append(data[start - 1 : number.end()] if data[start - 1 : start] == b"-" else number[0])
        start = zeros.find(_LONG, number.end())
    return not _are_kept(numbers)


def loads_exactly(data: bytes) -> Any:
    """Works like :func:`loads`, of a text that orjson has read.

    Raises:
        ValueError: a number has more digits than Python reads.
    """
    try:
        return json.loads(data, parse_float=_decimal)
    except RecursionError as error:
        raise ValueError(" is nested too deeply") from error


def dumps(value: Any, *, indented: bool = False) -> bytes:
    """Returns the JSON of a value, with each number as it is: integers of any length, decimals, :class:`WrittenFloat`.

    Args:
        value: what to write.
        indented: whether to write it for the eye; else without a space.

    Raises:
        TypeError: JSON has no such value.
        ValueError: a number is not finite, or has more digits than Python writes.
    """
    option = orjson.OPT_SERIALIZE_NUMPY | (orjson.OPT_INDENT_2 if indented else 0)
    try:
        data = orjson.dumps(value, default=_other, option=option)
    except TypeError:
        shown = _with_long_integers(value)
        if shown is value:
            raise
        data = orjson.dumps(shown, default=_other, option=option)
    # orjson writes null for numbers that are not finite; only then is the walk needed.
    if b"null" in data and _has_non_finite(value):
        raise ValueError(" has a number that is not finite")
    return data


def column_has_inexact(spanned: npt.NDArray[np.uint8], doubles: list[npt.NDArray[np.float64]]) -> bool:
    """Returns whether the text of a column may have a number that its doubles do not hold.

    Args:
        spanned: the text of all values, separated.
        doubles: what the column's fields of doubles were read as, 1.0 for null.
    """
    if not doubles:
        return False
    large = any((np.abs(numbers) >= _EXACT_IN_DOUBLE).any() for numbers in doubles)
    if any((np.abs(numbers) < _SMALLEST_NORMAL).any() for numbers in doubles) and _has_tiny(spanned):
        return True
    return _has_long(spanned) and not _all_kept(_long_numbers(spanned), integers=large)


def _has_tiny(spanned: npt.NDArray[np.uint8]) -> bool:
    """Whether a text has an exponent of three digits with a minus."""
    # One bit makes small letters of capitals.
    places = np.flatnonzero((spanned[1:-3] == ord("-")) & ((spanned[:-4] | 0x20) == ord("e"))) + 1
    return bool(_are_digits(spanned[places[:, None] + np.arange(1, 4)]).all(axis=1).any())


def _has_long(spanned: npt.NDArray[np.uint8]) -> bool:
    """Whether a text has 16 digits and points in a row, or almost."""
    sampled = _are_digits(spanned[::_STRIDE])
    pairs = sampled[:-1] & sampled[1:]
    places = np.flatnonzero(pairs[:-2] & pairs[2:]) * _STRIDE
    between = np.arange((_IN_A_ROW - 1) * _STRIDE + 1)
    # Where there are many, the first few show it.
    for some in (places[:_FEW], places[_FEW:]):
        if _are_digits(spanned[some[:, None] + between]).all(axis=1).any():
            return True
    return False


def _are_digits(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    # Of 8 bits, without a sign: what is below "." becomes large. "/" stands between "." and "0".
    digits: npt.NDArray[np.bool_] = ((text - np.uint8(ord("."))) < 12) & (text != ord("/"))
    return digits


def _long_numbers(spanned: npt.NDArray[np.uint8]) -> list[bytes]:
    """The numbers in a text that have at least 16 digits, and some strings that look like one."""
    edges = np.flatnonzero(np.diff(_are_digits(spanned), prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    # A text begins with a brace, so there is a byte before every run.
    chosen = (ends - starts > _EXACT_DIGITS) & (spanned[starts - 1] != ord('"'))
    text = spanned.tobytes()
    numbers = []
    for start, end in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True):
        exponent = _EXPONENT.match(text, end) if text[end] in b"eE" else None
        numbers.append(text[start : end if exponent is None else exponent.end()])
    return numbers


def _all_kept(numbers: list[bytes], *, integers: bool) -> bool:
    whole = [number for number in numbers if number.isdigit() and len(number) <= _LONGEST_INTEGER]
    if integers and not all(is_kept_as_double(int(number)) for number in whole):
        return False
    return _are_kept([number for number in numbers if not number.isdigit()])


def _are_kept(numbers: list[bytes]) -> bool:
    """Whether orjson's reading of each number is written as the same number."""
    together = b"[" + b",".join(numbers) + b"]"
    try:
        # Most are written as orjson writes them: then a comparison of the whole is enough.
        if orjson.dumps(orjson.loads(together)) == together:
            return True
    except orjson.JSONDecodeError:
        pass
    return all(map(_is_kept, numbers))


def is_kept_as_double(number: int) -> bool:
    """Returns whether the double nearest to an integer is written as the same number."""
    if abs(number) <= _EXACT_IN_DOUBLE:
        return True
    try:
        return Decimal(repr(float(number))) == number
    except OverflowError:
        return False


def _is_kept(number: bytes) -> bool:
    text = number.decode()
    try:
        if text.lstrip("-").isdigit():
            return _LOWEST <= int(text) <= _HIGHEST
        shortest = repr(float(text))
        return shortest == text or Decimal(shortest) == Decimal(text)
    except (ValueError, InvalidOperation):
        # Digits inside of a string, or more than Python reads: the exact parser decides.
        return False


def _decimal(text: str) -> float | Decimal:
    number = float(text)
    shortest = repr(number)
    if shortest == text:
        return number
    try:
        exact = Decimal(text)
        if math.isfinite(number):
            if Decimal(shortest) == exact:
                return number
            if len(exact.as_tuple().digits) <= _DOUBLE_DIGITS and abs(number) >= _SMALLEST_NORMAL:
                return WrittenFloat(text)
    except InvalidOperation as error:
        raise ValueError(f" has the number {text[:40]}, which is beyond any decimal") from error
    return exact


def _other(value: Any) -> Any:
    """What orjson does not write by itself."""
    if isinstance(value, WrittenFloat):
        return orjson.Fragment(value.text)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(" has a number that is not finite")
        return orjson.Fragment(str(value))
    plain = without_branch(value)
    if plain is not value:
        return plain
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


def _with_long_integers(value: Any) -> Any:
    """``value`` with text in place of its integers beyond 64 bits, or itself if it has none."""
    if isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
        return orjson.Fragment(str(int(value)))
    if isinstance(value, dict):
        items = {key: _with_long_integers(item) for key, item in value.items()}
        return items if any(items[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        listed = [_with_long_integers(item) for item in value]
        return listed if any(mine is not its for mine, its in zip(listed, value, strict=True)) else value
    return value


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "f" and not np.isfinite(value).all())
    if isinstance(value, list | tuple):
        return any(map(_has_non_finite, value))
    return False
