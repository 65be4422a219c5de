"""The tuning of RocksDB: frozen data, per store or as the application's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.config import Compression
from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments

__all__ = ["Compression", "RocksDBOptions"]


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class RocksDBOptions:
    """Tuning of one store, or of all. What is ``None`` is as the application's ``rocksdb.*`` settings say.

    In Kafka Streams this is code (``RocksDBConfigSetter``, KIP-93); here it is data, since stores are opened in worker
    processes. Another choice at the next start is fine: files that are there are read whatever they were written with.

    Args:
        block_cache_bytes: a block cache of the store's own, one for all tasks of a worker process, above the common
            ``rocksdb.memory.bytes``: a store that is scanned a lot then does not push the others' blocks out.
        block_bytes: size of a block before compression. Larger ones compress better, and a read costs more.
        write_buffer_bytes: how much is written before a file is made of it.
        max_write_buffers: write buffers, those that are being written to files included.
        bloom_filter_bits_per_key: 10 let one lookup of an absent key in a hundred read a block for nothing; 0 makes no
            filter.
        compression: how blocks are compressed.
        level0_file_num_compaction_trigger: files in level 0 at which they are merged downwards.
        level0_slowdown_writes_trigger: files in level 0 at which writes are slowed down.
        level0_stop_writes_trigger: files in level 0 at which writes wait for the compaction.

    Raises:
        TopologyError: a number is out of its range, or the level-0 triggers are not in ascending order.
    """

    block_cache_bytes: int | None = None
    block_bytes: int | None = None
    write_buffer_bytes: int | None = None
    max_write_buffers: int | None = None
    bloom_filter_bits_per_key: int | None = None
    compression: Compression | str | None = None
    level0_file_num_compaction_trigger: int | None = None
    level0_slowdown_writes_trigger: int | None = None
    level0_stop_writes_trigger: int | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise TopologyError(f"The RocksDB option {name} must be {least} or more, not {value}.")
        if self.compression is not None and self.compression not in set(Compression):
            raise TopologyError(f"RocksDB compresses with one of {', '.join(Compression)}, not {self.compression!r}.")
        given = [value for name in _LEVEL0 if (value := getattr(self, name)) is not None]
        if given != sorted(given):
            raise TopologyError(
                f"RocksDB's level-0 triggers are {given}: compaction, slowdown and stop must not be descending."
            )

    def over(self, defaults: RocksDBOptions) -> RocksDBOptions:
        """Returns these options, with ``defaults`` for those that are ``None``."""
        names = self.__dataclass_fields__
        return RocksDBOptions(
            **{name: getattr(defaults, name) if getattr(self, name) is None else getattr(self, name) for name in names}
        )


_LEVEL0 = (
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
)
_LEAST = {
    "block_cache_bytes": 1,
    "block_bytes": 1_024,
    "write_buffer_bytes": 64 * 1_024,
    "max_write_buffers": 2,
    "bloom_filter_bits_per_key": 0,
    **dict.fromkeys(_LEVEL0, 1),
}
