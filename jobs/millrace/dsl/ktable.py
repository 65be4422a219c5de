"""``KTable``: the latest value of each key, changed by each record."""

from __future__ import annotations

from millrace.dsl.callables import check_mapper
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.kstream import KStream
from millrace.dsl.options import Named, name_of
from millrace.serdes import Serde
from millrace.topology import naming
from millrace.topology.logical import Process
from millrace.topology.operators import KeyMapper, TableToStream


class KTable:
    """A table. Made by :meth:`StreamsBuilder.table`, :meth:`KStream.to_table` and aggregations."""

    def __init__(
        self,
        graph: GraphBuilder,
        name: str,
        *,
        key_serde: Serde | None,
        value_serde: Serde | None,
        sources: frozenset[str],
        store: str,
    ) -> None:
        self._graph = graph
        self._name = name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._sources = sources
        self._store = store

    def to_stream(self, mapper: KeyMapper | None = None, *, named: Named | str | None = None) -> KStream:
        """The table's changes as a stream; deletions are records with a null value.

        Args:
            mapper: gives each record a new key: a callable ``(key, value)`` or an expression.
            named: name of the node.
        """
        if mapper is not None:
            check_mapper(mapper, what="key mapper")
        name = self._graph.new_name(naming.TABLE_TO_STREAM, name_of(named))
        self._graph.add(Process(name=name, parents=(self._name,), operator=TableToStream()))
        stream = KStream(
            self._graph,
            name,
            key_serde=self._key_serde,
            value_serde=self._value_serde,
            sources=self._sources,
            key_changed=False,
        )
        return stream if mapper is None else stream.select_key(mapper)
