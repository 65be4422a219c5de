"""Records in a file: for stores that have no files of their own, and for repartition topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from millrace.errors import StateError
from millrace.state.layout import Int64Array

_SCHEMA = pa.schema(
    [
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """Records, in order.

    Args:
        keys: key bytes or ``None``.
        values: value bytes or ``None``.
        timestamps: milliseconds, int64.
        headers: per record (name, value) pairs or ``None``; ``None`` where no record has headers.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Int64Array
    headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


def write_records(path: Path, batches: Iterable[RecordBatch]) -> int:
    """Writes records to a new file, an Arrow stream.

    Returns:
        how many there were.
    """
    count = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
        for batch in batches:
            headers = batch.headers if batch.headers is not None else [None] * len(batch)
            columns = [
                pa.array(batch.keys, type=_SCHEMA.field("key").type),
                pa.array(batch.values, type=_SCHEMA.field("value").type),
                pa.array(batch.timestamps, type=pa.int64()),
                pa.array(
                    [
                        None if each is None else [{"name": name, "value": value} for name, value in each]
                        for each in headers
                    ],
                    type=_SCHEMA.field("headers").type,
                ),
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
            count += len(batch)
    return count


def read_records(path: Path) -> Iterator[RecordBatch]:
    """Yields the records of a file that :func:`write_records` wrote.

    Raises:
        StateError: it is no such file.
    """
    try:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                headers = batch.column("headers")
                yield RecordBatch(
                    keys=batch.column("key").to_pylist(),
                    values=batch.column("value").to_pylist(),
                    timestamps=batch.column("timestamp").to_numpy().astype(np.int64),
                    headers=None
                    if headers.null_count == len(headers)
                    else [each and [(pair["name"], pair["value"]) for pair in each] for each in headers.to_pylist()],
                )
    except pa.ArrowInvalid as error:
        raise StateError(
            f"{path} is no file of records: {error}.", remedy="verify the savepoint that it belongs to"
        ) from error
