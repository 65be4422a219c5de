"""The records as bytes for a store; the processing handler gets those that the store's serdes cannot write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.errors import MillraceError, SerializationError
from millrace.serdes import Serde
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records
from millrace.task.serialization import to_bytes_array, to_bytes_list


@dataclass(frozen=True)
class WrittenRecords:
    """The records that the store's serdes can write, with their bytes.

    Args:
        records: the records.
        kept: their rows among those that were given; ``None``: all of them.
        key_bytes: their keys' bytes, in either form.
        values: their values' bytes; empty where no serde was given.
    """

    records: Records
    kept: IntArray | None
    key_bytes: pa.Array | list[bytes | None]
    values: list[bytes | None]

    @property
    def key_array(self) -> pa.Array:
        """The keys' bytes as a binary array."""
        return pa.array(self.key_bytes, type=pa.binary()) if isinstance(self.key_bytes, list) else self.key_bytes

    @property
    def keys(self) -> list[bytes | None]:
        """The keys' bytes as a list."""
        listed: list[bytes | None] = self.key_bytes if isinstance(self.key_bytes, list) else self.key_bytes.to_pylist()
        return listed


def written(
    records: Records,
    failures: FailureHandler,
    node: str,
    *,
    key_serde: Serde,
    value_serde: Serde | None = None,
    keys: Column | None = None,
) -> WrittenRecords:
    """Returns the records as bytes. As in Kafka Streams, a serialization failure belongs to the node's record.

    Args:
        records: what reached the node.
        failures: is asked about each record that cannot be written.
        node: the node.
        key_serde: the store's, of keys.
        value_serde: the same of values; ``None`` leaves them alone.
        keys: what is written in place of their keys.

    Raises:
        ProcessingError: a record cannot be written, and the handler does not continue.
    """
    if keys is None:
        keys = records.keys
    try:
        return _written(records, keys, None, key_serde, value_serde)
    except Exception as error:
        if not is_of_a_record(error):
            raise
    # At least one cannot be written; which, shows one by one.
    kept: list[int] = []
    for row in range(len(records)):
        alone = np.array([row], dtype=np.int64)
        try:
            _written(records.take(alone), keys.take(alone), None, key_serde, value_serde)
        except Exception as error:
            if not is_of_a_record(error):
                raise
            failures.processing(error, int(records.origin[row]), node, processed_record(records, row))
        else:
            kept.append(row)
    rows = np.array(kept, dtype=np.int64)
    return _written(records.take(rows), keys.take(rows), rows, key_serde, value_serde)


def is_of_a_record(error: Exception) -> bool:
    """Returns whether an error of a serde is caused by its input, and not by Millrace or its surroundings."""
    return isinstance(error, SerializationError) or not isinstance(error, MillraceError | MemoryError)


def _written(
    records: Records, keys: Column, kept: IntArray | None, key_serde: Serde, value_serde: Serde | None
) -> WrittenRecords:
    key_bytes = to_bytes_array(keys, key_serde) if keys.is_arrow else to_bytes_list(keys, key_serde)
    values = [] if value_serde is None else to_bytes_list(records.values, value_serde)
    return WrittenRecords(records, kept, key_bytes, values)
