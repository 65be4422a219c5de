"""``StreamJoined``: the options of a join of two streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.arguments import checks_arguments
from millrace.topology.naming import check_name
from millrace.topology.rocksdb_options import RocksDBOptions
from millrace.topology.store_builders import StoreSupplier
from millrace.topology.stores import StoreBackend


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class StreamJoined:
    """The options of joining two streams. Source: ``org.apache.kafka.streams.kstream.StreamJoined`` (KIP-479).

    The stores are never cached, and keep records for the window's size and grace, as in Kafka Streams.

    Args:
        name: first part of the names of the join's nodes, and of the repartition topics in front of it.
        store_name: first part of the names of its stores and changelogs.
        key_serde: ``None`` takes the left stream's.
        value_serde: of the left stream; ``None`` takes its own.
        other_value_serde: of the right stream; ``None`` takes its own.
        logging: whether changelog topics back the stores.
        changelog_settings: topic settings of the changelogs that override their defaults.
        store_type: RocksDB on disk, or memory.
        rocksdb: tuning of RocksDB for these stores; ``None`` takes the configuration's ``rocksdb.*``.
        this_store_supplier: the left stream's store, with its own name; ``None`` makes one as above.
        other_store_supplier: the same for the right stream.
    """

    name: str | None = None
    store_name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    other_value_serde: Serde | None = None
    logging: bool = True
    changelog_settings: tuple[tuple[str, str], ...] = ()
    store_type: StoreBackend = StoreBackend.ROCKSDB
    rocksdb: RocksDBOptions | None = None
    this_store_supplier: StoreSupplier | None = None
    other_store_supplier: StoreSupplier | None = None

    @classmethod
    def as_(cls, store_name: str) -> StreamJoined:
        """Names the stores (the nodes are named by :meth:`with_name`)."""
        return cls().with_store_name(store_name)

    @classmethod
    def with_(
        cls,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        other_value_serde: Serde | None = None,
    ) -> StreamJoined:
        """Sets the serdes."""
        return cls(key_serde=key_serde, value_serde=value_serde, other_value_serde=other_value_serde)

    def with_name(self, name: str) -> StreamJoined:
        """Names the nodes and the repartition topics."""
        return replace(self, name=check_name(name, what="node"))

    def with_store_name(self, store_name: str) -> StreamJoined:
        """Names the stores and changelogs."""
        return replace(self, store_name=check_name(store_name, what="store"))

    def with_key_serde(self, key_serde: Serde | None) -> StreamJoined:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> StreamJoined:
        """Sets the serde of the left stream's values."""
        return replace(self, value_serde=value_serde)

    def with_other_value_serde(self, other_value_serde: Serde | None) -> StreamJoined:
        """Sets the serde of the right stream's values."""
        return replace(self, other_value_serde=other_value_serde)

    def with_logging_enabled(self, settings: Mapping[str, str] | None = None) -> StreamJoined:
        """Backs the stores by changelog topics with these topic settings over their defaults."""
        pairs = tuple(sorted((key, str(value)) for key, value in (settings or {}).items()))
        return replace(self, logging=True, changelog_settings=pairs)

    def with_logging_disabled(self) -> StreamJoined:
        """Keeps no changelog topics: the stores start empty wherever their task moves."""
        return replace(self, logging=False, changelog_settings=())

    def with_store_type(self, store_type: StoreBackend | str) -> StreamJoined:
        """Chooses RocksDB or memory: a :class:`StoreBackend`, or its text, ``"rocksdb"`` or ``"memory"``.

        Raises:
            TopologyError: it is neither.
        """
        choices = [backend.value for backend in StoreBackend]
        if store_type not in choices:
            raise TopologyError(
                f"The store type is one of {choices}, not {store_type!r}.", remedy="pass StoreBackend.ROCKSDB or MEMORY"
            )
        return replace(self, store_type=StoreBackend(store_type))

    def with_this_store_supplier(self, supplier: StoreSupplier) -> StreamJoined:
        """Keeps the left stream's records where ``supplier`` says, under its name (KIP-479).

        Its window size must be that of the join, its retention that and the grace, and it must retain duplicates. The
        store of records that wait for a partner is beside it, in memory or RocksDB as well.
        """
        return replace(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: StoreSupplier) -> StreamJoined:
        """Keeps the right stream's records where ``supplier`` says: see :meth:`with_this_store_supplier`."""
        return replace(self, other_store_supplier=supplier)

    def with_rocksdb_options(self, options: RocksDBOptions) -> StreamJoined:
        """Sets a tuning of RocksDB for the stores of the join."""
        return replace(self, rocksdb=options)
