"""Serdes of numbers: fixed width, big-endian, as Kafka's own serializers write them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SerializationError
from millrace.serdes.columns import as_binary, bytes_and_offsets, conformed, fixed_width_binary


class _FixedWidthSerde:
    """What numbers share: a struct format per value, a numpy byte swap per column."""

    _TYPE: ClassVar[pa.DataType]
    _FORMAT: ClassVar[struct.Struct]
    _WIRE: ClassVar[np.dtype[Any]]

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the number."""
        return self._TYPE

    def serialize(self, value: Any) -> bytes:
        """Returns the big-endian bytes of ``value``.

        Raises:
            SerializationError: the value is no number of this type, or does not fit.
        """
        try:
            return self._FORMAT.pack(self._number(value))
        except (struct.error, OverflowError) as error:
            raise SerializationError(f"{value!r} does not fit into {self._TYPE}.") from error

    def deserialize(self, data: bytes) -> Any:
        """Returns the number in ``data``.

        Raises:
            SerializationError: the length is wrong.
        """
        if len(data) != self._FORMAT.size:
            raise SerializationError(f"A {self._TYPE} has {self._FORMAT.size} bytes, not {len(data)}.")
        return self._FORMAT.unpack(data)[0]

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns the big-endian bytes of each number.

        Raises:
            SerializationError: the values are no numbers of this type, or do not fit.
        """
        numbers = conformed(values, self._TYPE)
        if not numbers.null_count:
            return fixed_width_binary(numbers.to_numpy().astype(self._WIRE), None)
        zero = pa.scalar(0, self._TYPE)
        return fixed_width_binary(pc.fill_null(numbers, zero).to_numpy().astype(self._WIRE), pc.is_valid(numbers))

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns the numbers of a binary array.

        Raises:
            SerializationError: at least one value has the wrong length.
        """
        column = as_binary(data)
        present = column.drop_null() if column.null_count else column
        numbers = np.zeros(len(column), dtype=self._WIRE.newbyteorder("="))
        mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if len(present):
            spanned, offsets = bytes_and_offsets(present)
            if not (np.diff(offsets) == self._FORMAT.size).all():
                raise SerializationError(f"The column has values that are not {self._FORMAT.size} bytes long.")
            decoded = spanned.view(self._WIRE)
            if mask is None:
                numbers[:] = decoded
            else:
                numbers[~mask] = decoded
        return pa.array(numbers, type=self._TYPE, mask=mask, from_pandas=False)

    def _number(self, value: Any) -> int | float:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return int(value)
        raise SerializationError(
            f"An integer is expected, not {value!r}.", remedy="choose the serde of the value's type"
        )


@dataclass(frozen=True)
class ShortSerde(_FixedWidthSerde):
    """Signed 16-bit integers. Source: ``org.apache.kafka.common.serialization.ShortSerializer``."""

    _TYPE = pa.int16()
    _FORMAT = struct.Struct(">h")
    _WIRE = np.dtype(">i2")


@dataclass(frozen=True)
class IntegerSerde(_FixedWidthSerde):
    """Signed 32-bit integers. Source: ``org.apache.kafka.common.serialization.IntegerSerializer``."""

    _TYPE = pa.int32()
    _FORMAT = struct.Struct(">i")
    _WIRE = np.dtype(">i4")


@dataclass(frozen=True)
class LongSerde(_FixedWidthSerde):
    """Signed 64-bit integers. Source: ``org.apache.kafka.common.serialization.LongSerializer``."""

    _TYPE = pa.int64()
    _FORMAT = struct.Struct(">q")
    _WIRE = np.dtype(">i8")


@dataclass(frozen=True)
class DoubleSerde(_FixedWidthSerde):
    """IEEE 754 64-bit numbers, NaN and infinities included; integers up to 2**53 are taken too.

    Source: ``org.apache.kafka.common.serialization.DoubleSerializer``.
    """

    _TYPE = pa.float64()
    _FORMAT = struct.Struct(">d")
    _WIRE = np.dtype(">f8")

    def _number(self, value: Any) -> int | float:
        return _floating(value, "double", 2**53)


@dataclass(frozen=True)
class FloatSerde(_FixedWidthSerde):
    """IEEE 754 32-bit numbers, NaN and infinities included; integers up to 2**24 are taken too.

    Python's floats have 64 bits: they are rounded to the nearest 32-bit number, as Java's ``(float)`` does, but finite
    ones that it would turn into an infinity are errors.

    Source: ``org.apache.kafka.common.serialization.FloatSerializer``.
    """

    _TYPE = pa.float32()
    _FORMAT = struct.Struct(">f")
    _WIRE = np.dtype(">f4")

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns the big-endian bytes of each number, rounded to 32 bits.

        Raises:
            SerializationError: the values are no numbers, or a finite one is beyond what 32 bits hold.
        """
        numbers = conformed(values, self._TYPE)
        if pa.types.is_float64(values.type):
            became_infinite = pc.and_(pc.is_inf(numbers), pc.invert(pc.is_inf(values)))
            if pc.any(became_infinite).as_py():
                raise SerializationError(f"A column of {values.type} does not fit into {self._TYPE}.")
        return super().serialize_column(numbers)

    def _number(self, value: Any) -> int | float:
        return _floating(value, "float", 2**24)


def _floating(value: Any, kind: str, largest_integer: int) -> float:
    """``value`` as a Python float; integers beyond ``largest_integer`` have no exact form."""
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) <= largest_integer:
        return float(value)
    raise SerializationError(
        f"A number that a {kind} holds exactly is expected, not {value!r}.",
        remedy="choose the serde of the value's type",
    )
