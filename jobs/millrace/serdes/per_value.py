"""The base class of serdes whose values have no Arrow type."""

from __future__ import annotations

import pyarrow as pa

from millrace.errors import SerializationError


class PerValueSerde:
    """Base of serdes that work value by value: the task calls ``serialize`` and ``deserialize`` for each."""

    @property
    def arrow_type(self) -> None:
        """``None``: the values have no Arrow type."""
        return None

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Refuses the call: this serde has no Arrow type.

        Raises:
            SerializationError: always.
        """
        raise SerializationError(
            f"{type(self).__name__} does not write a column of {values.type}.", remedy="use serialize for each value"
        )

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Refuses the call: this serde has no Arrow type.

        Raises:
            SerializationError: always.
        """
        raise SerializationError(
            f"{type(self).__name__} does not read a column of {data.type}.", remedy="use deserialize for each value"
        )
