"""pyarrow expressions over a batch of records."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from millrace.errors import ProcessingError
from millrace.task.columns import Column
from millrace.task.records import Records

_MISSING_FIELD = re.compile(r"No match for FieldRef\.Name\(([^)]*)\)")


def evaluate(expression: pc.Expression, records: Records) -> Column:
    """The expression's value for each record.

    Fields of a struct value are columns of their own; ``key``, ``value`` and ``timestamp`` are the record's parts. Of
    values without a type (JSON without a schema) a field that none has is null, since it would be null as well if
    another record in the batch had it.

    Raises:
        ProcessingError: the expression names a field that is not there, or does not fit the columns' types.
    """
    values = records.values.arrow
    columns: dict[str, pa.Array] = {}
    if pa.types.is_struct(values.type):
        columns = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    columns |= {"key": records.keys.arrow, "value": values, "timestamp": pa.array(records.timestamps)}
    while True:
        table = pa.table(columns)
        try:
            return _project(expression, table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError) as error:
            missing = None if records.values.is_arrow else _MISSING_FIELD.search(str(error))
            if missing is None or missing[1] in columns:
                raise ProcessingError(
                    f"The expression {expression} cannot be computed over the columns {table.schema.names}: {error}.",
                    remedy="correct the field names or types of the expression, or give the source a serde with a "
                    "schema",
                ) from error
            columns[missing[1]] = pa.nulls(len(records))


def _project(expression: pc.Expression, table: pa.Table) -> Column:
    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["result"])),
    ]
    column = acero.Declaration.from_sequence(plan).to_table(use_threads=False).column("result")
    return Column(arrow=column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
