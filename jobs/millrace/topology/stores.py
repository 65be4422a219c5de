"""The specifications of state stores: frozen data. The stores themselves are in ``millrace.state``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from millrace.serdes import Serde
from millrace.topology.custom_stores import StoreFactory
from millrace.topology.rocksdb_options import RocksDBOptions


class StoreKind(StrEnum):
    """The shape of a store's keys. Values always carry their record timestamp (KIP-258)."""

    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    """Keys with the history of their values (KIP-889)."""
    BUFFER = "buffer"
    """Changes of a suppressed table that wait, by key."""


class StoreBackend(StrEnum):
    """The backend in which a store keeps its bytes."""

    ROCKSDB = "rocksdb"
    MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class StoreSpec:
    """A state store of a sub-topology.

    Args:
        name: store name, unique in the topology.
        kind: shape of the keys.
        key_serde: serde of the (un-windowed) key; ``None`` takes the default of the configuration.
        value_serde: serde of the value; ``None`` takes the default of the configuration.
        backend: RocksDB on disk or memory.
        logged: whether a changelog topic backs the store.
        cached: whether updates of one key within one commit are merged into one.
        window_size_ms: size of the windows, milliseconds; only for window stores.
        retention_ms: how long a window is kept after its start, a session after its end, milliseconds of stream time;
            only for window and session stores.
        retains_duplicates: whether a write of the same key and window start is kept beside the earlier ones: the
            buffers of stream-stream joins, which are window stores.
        history_retention_ms: how far back from the newest timestamp versions may be put and asked for, milliseconds;
            only for versioned stores. 0 keeps no history.
        segment_interval_ms: how long the parts are in which a versioned store forgets its history, milliseconds.
        changelog_settings: topic settings that override the changelog topic's defaults.
        custom: makes the store, where it is one of the user's; ``backend`` then says nothing.
        capacity: most keys that the store holds (a least-recently-used map in memory); only for key-value stores.
        supplied: whether the user gave a supplier: as in Kafka Streams a join's buffer then has a compacted changelog.
        rocksdb: tuning of RocksDB where it is not the application's.
        source_topic: the input topic that serves as this store's changelog, where a rewrite made it so.
        timestamped: whether a processor is shown the timestamps of its values.
    """

    name: str
    kind: StoreKind
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    backend: StoreBackend = StoreBackend.ROCKSDB
    logged: bool = True
    cached: bool = True
    window_size_ms: int = 0
    retention_ms: int = 0
    retains_duplicates: bool = False
    history_retention_ms: int = 0
    segment_interval_ms: int = 0
    changelog_settings: tuple[tuple[str, str], ...] = field(default=())
    custom: StoreFactory | None = None
    capacity: int | None = None
    supplied: bool = False
    rocksdb: RocksDBOptions | None = None
    source_topic: str | None = None
    timestamped: bool = True

    @property
    def is_on_disk(self) -> bool:
        """Whether it is in the task's database, where the task has a directory."""
        return self.backend is StoreBackend.ROCKSDB and self.custom is None

    @property
    def has_changelog(self) -> bool:
        """Whether a topic restores it: a changelog of its own, or an input topic that serves as one."""
        return self.logged or self.source_topic is not None

    @property
    def is_in_record_cache(self) -> bool:
        """Whether ``statestore.cache.max.bytes`` is about it: its updates are merged, and held by key until the commit.

        A map of the most recent keys is in memory as a whole in any case.
        """
        by_key = self.kind in (StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION)
        return self.cached and by_key and not self.retains_duplicates and self.capacity is None

    def changelog_topic(self, application_id: str) -> str | None:
        """Returns the name of the topic that backs the store, ``None`` where it is not logged."""
        if self.source_topic is not None:
            return self.source_topic
        return changelog_topic_name(self.name, application_id) if self.logged else None

    def own_changelog_topic(self, application_id: str) -> str | None:
        """Returns the name of the changelog that the application creates, writes and deletes.

        ``None`` where the store is not logged, and where an input topic serves as its changelog: that one is another's.
        """
        return self.changelog_topic(application_id) if self.source_topic is None else None


def changelog_topic_name(store: str, application_id: str) -> str:
    """Returns the name of the changelog topic of a store, as Kafka Streams gives it."""
    return f"{application_id}-{store}-changelog"
