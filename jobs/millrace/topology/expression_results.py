"""The evaluation of an expression over the rows of a table, in Arrow."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

Check = Callable[[pa.DataType], str | None]
"""What is expected instead of a result of this type; ``None`` where it is right."""

# What Arrow raises for values or types, and Python where values are put into columns.
_FAILURES = (pa.ArrowException, ValueError, TypeError, OverflowError)
# What says nothing about the records.
_FATAL = (pa.ArrowMemoryError, pa.ArrowCancelled)


def compute(expression: pc.Expression, make_table: Callable[[], pa.Table], check: Check | None) -> pa.Array | Exception:
    """Returns the expression's value for each row of a table, or why there is none.

    Args:
        expression: what to compute.
        make_table: puts the rows into columns; objects that no column holds make it raise.
        check: refuses types of results.
    """
    # Loads pandas, which what only writes a topology should not wait for.
    from pyarrow import acero

    try:
        plan = [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(make_table())),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["result"])),
        ]
        column = acero.Declaration.from_sequence(plan).to_table(use_threads=False).column("result")
    except _FATAL:
        raise
    except _FAILURES as error:
        return error
    expected = None if check is None else check(column.type)
    if expected is not None:
        return pa.ArrowTypeError(f"the result is of type {column.type}, not {expected}")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
