"""The serde of a topology that names none, without a default in the configuration: bytes as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.errors import SerializationError
from millrace.serdes.primitives import BytesSerde


@dataclass(frozen=True)
class UnsetSerde(BytesSerde):
    """Bytes as they are, because no serde was named; a default of the configuration replaces it.

    Args:
        part: ``"key"`` or ``"value"``.
        where: the store or topic, and the node, for the message; empty before the topology is built.
        argument: what would have named the serde, for the remedy.
    """

    part: str
    where: str = ""
    argument: str = ""

    def serialize(self, value: Any) -> bytes:
        """Returns ``value`` itself.

        Raises:
            SerializationError: it is not bytes; where it was to be written is named.
        """
        try:
            return super().serialize(value)
        except SerializationError as error:
            raise self._refusal(f"{value!r} ({type(value).__name__})") from error

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns ``values`` as a binary array.

        Raises:
            SerializationError: they are not bytes; where they were to be written is named.
        """
        try:
            return super().serialize_column(values)
        except SerializationError as error:
            raise self._refusal(f"a column of {values.type}") from error

    def _refusal(self, found: str) -> SerializationError:
        by = f" by {self.argument}" if self.argument else ""
        problem = f"{self.where} has no {self.part} serde" if self.where else f"No {self.part} serde is named"
        return SerializationError(
            f"{problem}, and default.{self.part}.serde is not set, so bytes are expected, not {found}.",
            remedy=f"give it a serde{by}, or set default.{self.part}.serde",
        )
