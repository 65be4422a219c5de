"""The rows of a table as of a position in the order, stored or computed: Kafka Streams' ``KTableValueGetter``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import Windowed
from millrace.state.layout import NO_TIMESTAMP
from millrace.task.columns import Column, IntArray, WindowedColumn
from millrace.task.operators.tables.table_rows import RowFunctions, present_key_bytes
from millrace.task.operators.tables.table_writing import decoded
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, or_default, to_bytes_list
from millrace.task.task_stores import TaskStores
from millrace.topology.aggregators import BuiltInAggregator, StructAggregator
from millrace.topology.operators import (
    CogroupMerge,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    TableAggregate,
    TableFilter,
    TableJoinMerge,
    TableMapValues,
    TableSource,
    TableSuppress,
    TableTransformValues,
    WindowedAggregate,
)
from millrace.topology.stores import StoreKind


def _nothing_is_foreign(_: int) -> bool:
    return False


@dataclass(frozen=True)
class Rows:
    """The rows found for records that look a table up.

    Args:
        values: the rows' values, null where there is no row.
        timestamps: their timestamps, milliseconds; -1 where there is no row.
        stored: the bytes that a store has of the values, as the serde of their time has written them; ``None`` for a
            table that is computed.
        is_foreign: says of a row's number whether a store has bytes of it, or of what it is computed of, that the
            store's serde does not write: so the row has not changed since the serde has.
    """

    values: Column
    timestamps: IntArray
    stored: list[bytes | None] | None = None
    is_foreign: Callable[[int], bool] = _nothing_is_foreign


class TableGetter(Protocol):
    """A getter of the rows of one table."""

    @property
    def is_versioned(self) -> bool:
        """Whether rows can be read as of a timestamp."""

    def get(self, records: Records, functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        """Returns the table's row for the key of each record, as of the record's position in the order.

        Args:
            records: their keys, none of which is null, and order columns count.
            functions: calls the functions that compute the row, and marks the rows at which they failed.
            as_of: the time of the version that each record sees, milliseconds; ``None`` takes the newest versions, and
                must be where the table is not versioned.
        """


def table_getter(table: str, stores: TaskStores) -> TableGetter:
    """Returns the getter of the table that the node ``table`` produces.

    Raises:
        TopologyError: its rows can neither be read nor computed.
    """
    node = stores.processors[table]
    operator = node.operator
    match operator:
        case TableSuppress(store=buffer):
            return _SuppressedGetter(table_getter(node.parents[0], stores), buffer, stores)
        case TableFilter(store=None):
            return _FilteredGetter(table_getter(node.parents[0], stores), operator)
        case TableMapValues(store=None):
            return _MappedGetter(table_getter(node.parents[0], stores), operator)
        case TableJoinMerge(store=None):
            return _JoinedGetter(table_getter(operator.left, stores), table_getter(operator.right, stores), operator)
        case (
            TableSource(store=str(store))
            | TableFilter(store=str(store))
            | TableMapValues(store=str(store))
            | TableTransformValues(store=str(store))
            | TableJoinMerge(store=str(store))
            | StreamAggregate(store=store)
            | WindowedAggregate(store=store)
            | SlidingAggregate(store=store)
            | SessionAggregate(store=store)
            | CogroupMerge(store=store)
            | TableAggregate(store=store)
        ):
            if stores.specs[store].kind in (StoreKind.WINDOW, StoreKind.SESSION):
                return _WindowedGetter(store, stores)
            return _StoredGetter(store, stores)
        case _:
            raise TopologyError(
                f"The table of node {table!r} ({type(operator).__name__}) cannot be looked up.",
                remedy="turn it into a stream with to_stream(), give that a plain key, and make a table of it again",
            )


class _StoredGetter:
    """The getter that reads a store, with the batch's changes up to each record's position."""

    def __init__(self, store: str, stores: TaskStores) -> None:
        self._store = store
        self._stores = stores
        self._view = stores.tables[store]
        self._key_serde = or_default(stores.specs[store].key_serde)

    @property
    def is_versioned(self) -> bool:
        """Whether the store is versioned."""
        return self._stores.specs[self._store].kind is StoreKind.VERSIONED

    def get(self, records: Records, _functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        keys = present_key_bytes(to_bytes_list(records.keys, self._key_serde), f"that reads store {self._store}")
        found, timestamps = self._view.lookup(keys, records.order, as_of)
        return _stored_rows(self._stores, self._store, found, timestamps)


def _stored_rows(stores: TaskStores, store: str, found: list[bytes | None], timestamps: IntArray) -> Rows:
    """Returns the rows of bytes found in a store."""
    serde = or_default(stores.specs[store].value_serde)
    # The state that a built-in aggregation stores is not its result.
    is_state = isinstance(stores.aggregators.get(store), BuiltInAggregator | StructAggregator)

    def is_foreign(row: int) -> bool:
        data = found[row]
        return data is not None and serde.serialize(serde.deserialize(data)) != data

    return Rows(decoded(stores, store, found), timestamps, None if is_state else found, is_foreign)


class _WindowedGetter:
    """The getter that reads a window or session store; the keys are windowed."""

    def __init__(self, store: str, stores: TaskStores) -> None:
        self._store = store
        self._stores = stores
        self._view = stores.windowed_tables[store]
        self._key_serde = or_default(stores.specs[store].key_serde)

    is_versioned = False

    def get(self, records: Records, _functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        assert as_of is None
        keys = windowed_keys(records.keys, self._store)
        inner = present_key_bytes(to_bytes_list(keys.inner, self._key_serde), f"that reads store {self._store}")
        found, timestamps = self._view.lookup(inner, keys.starts, keys.ends, records.order)
        return _stored_rows(self._stores, self._store, found, timestamps)


def windowed_keys(keys: Column, store: str) -> WindowedColumn:
    """Returns the keys of a windowed table, also where they came through a topic.

    Raises:
        ProcessingError: they have no windows.
    """
    if isinstance(keys, WindowedColumn):
        return keys
    objects = keys.objects
    strange = next((key for key in objects if not isinstance(key, Windowed)), None)
    if strange is not None:
        raise ProcessingError(
            f"Store {store} holds windows, and is asked for the key {strange!r}, which has none.",
            remedy="join it with a table or stream whose keys are Windowed",
        )
    return WindowedColumn(
        Column(objects=[key.key for key in objects]),
        np.array([key.start for key in objects], dtype=np.int64),
        np.array([key.end for key in objects], dtype=np.int64),
    )


class _SuppressedGetter:
    """The getter of a suppressed table: a buffered row has its old value, any other that of the parent table."""

    def __init__(self, parent: TableGetter, buffer: str, stores: TaskStores) -> None:
        self._parent = parent
        self._buffer = buffer
        self._view = stores.buffers[buffer]
        self._key_serde = or_default(stores.specs[buffer].key_serde)
        self._value_serde = or_default(stores.specs[buffer].value_serde)

    is_versioned = False

    def get(self, records: Records, functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        assert as_of is None
        keys = present_key_bytes(to_bytes_list(records.keys, self._key_serde), f"that reads store {self._buffer}")
        buffered = self._view.lookup(keys, records.order)
        rows = self._parent.get(records, functions)
        if not any(buffered):
            return rows
        prior = from_bytes([None if change is None else change.prior for change in buffered], self._value_serde)
        values = [
            known if change is None else before
            for known, before, change in zip(rows.values.objects, prior.objects, buffered, strict=True)
        ]
        is_buffered = np.fromiter((change is not None for change in buffered), dtype=bool, count=len(buffered))
        stored = None
        if rows.stored is not None:
            pairs = zip(rows.stored, buffered, strict=True)
            stored = [known if change is None else change.prior for known, change in pairs]
        # As in Kafka Streams: it is not known when the prior value came.
        return Rows(
            Column(objects=values), np.where(is_buffered, NO_TIMESTAMP, rows.timestamps), stored, rows.is_foreign
        )


class _FilteredGetter:
    """The getter that filters the rows of the parent table."""

    def __init__(self, parent: TableGetter, operator: TableFilter) -> None:
        self._parent = parent
        self._operator = operator

    @property
    def is_versioned(self) -> bool:
        """Whether the parent table is versioned."""
        return self._parent.is_versioned

    def get(self, records: Records, functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        rows = self._parent.get(records, functions, as_of=as_of)
        kept = _without_times_of_nothing(functions.filter(self._operator, rows.values), rows)
        if rows.stored is None:
            return kept
        gone = kept.values.null_mask().tolist()
        return replace(kept, stored=[None if out else data for data, out in zip(rows.stored, gone, strict=True)])


class _MappedGetter:
    """The getter that maps the rows of the parent table."""

    def __init__(self, parent: TableGetter, operator: TableMapValues) -> None:
        self._parent = parent
        self._operator = operator

    @property
    def is_versioned(self) -> bool:
        """Whether the parent table is versioned."""
        return self._parent.is_versioned

    def get(self, records: Records, functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        rows = self._parent.get(records, functions, as_of=as_of)
        return _without_times_of_nothing(functions.map(self._operator, rows.values), rows)


class _JoinedGetter:
    """The getter that joins the rows of two tables, in their newest versions if they are versioned (KIP-914)."""

    is_versioned = False

    def __init__(self, left: TableGetter, right: TableGetter, operator: TableJoinMerge) -> None:
        self._left = left
        self._right = right
        self._operator = operator

    def get(self, records: Records, functions: RowFunctions, /, *, as_of: IntArray | None = None) -> Rows:
        assert as_of is None
        left = self._left.get(records, functions)
        right = self._right.get(records, functions)
        everywhere = np.ones(len(records), dtype=bool)
        kind, joiner = self._operator.kind, self._operator.joiner
        values = functions.join(kind, joiner, left.values, right.values, rows=everywhere)
        later = np.maximum(left.timestamps, right.timestamps)
        both = replace(left, timestamps=later, is_foreign=lambda row: left.is_foreign(row) or right.is_foreign(row))
        return _without_times_of_nothing(values, both)


def _without_times_of_nothing(values: Column, computed_of: Rows) -> Rows:
    timestamps = np.where(values.null_mask(), NO_TIMESTAMP, computed_of.timestamps)
    return Rows(values, timestamps, None, computed_of.is_foreign)
