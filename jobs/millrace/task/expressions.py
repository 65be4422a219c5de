"""pyarrow expressions over a batch of records."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from millrace.errors import ProcessingError
from millrace.task.columns import Column
from millrace.task.records import Records


def evaluate(expression: pc.Expression, records: Records) -> Column:
    """The expression's value for each record.

    Fields of a struct value are columns of their own; ``key``, ``value`` and ``timestamp`` are the record's parts.

    Raises:
        ProcessingError: the expression names a field that is not there, or does not fit the columns' types.
    """
    parts = {"key": records.keys.arrow, "value": records.values.arrow, "timestamp": pa.array(records.timestamps)}
    values = records.values.arrow
    columns = {}
    if pa.types.is_struct(values.type):
        columns = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    table = pa.table({**columns, **parts})
    try:
        result = acero.Declaration.from_sequence(
            [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
                acero.Declaration("project", acero.ProjectNodeOptions([expression], ["result"])),
            ]
        ).to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError) as error:
        raise ProcessingError(
            f"The expression {expression} cannot be computed over the columns {table.schema.names}: {error}.",
            remedy="correct the field names or types of the expression, or give the source a serde with a schema",
        ) from error
    column = result.column("result")
    return Column(arrow=column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
