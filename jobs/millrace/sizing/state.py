"""The size of a store."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import ConfigurationError
from millrace.sizing.checks import not_negative, positive
from millrace.sizing.updates import live_windows
from millrace.topology.windows import Duration

TIMESTAMP_BYTES = 8
"""Before every value (KIP-258)."""

WINDOW_KEY_BYTES = 20
"""Around the key of a window store: 8 for the segment, 8 for the start, 4 for the sequence."""

ENTRY_BYTES = 13
"""RocksDB's own per entry: 8 for sequence number and type, about 4 for the lengths of key and value and for the index
of the blocks, 1.25 for a Bloom filter of 10 bits a key. Source: RocksDB's block-based table format."""

SPACE_AMPLIFICATION = 1.11
"""Superseded entries that wait for compaction in a store that is updated: with dynamic level sizes all levels above the
last one hold a ninth of it. Source: RocksDB's wiki, leveled compaction."""


@dataclass(frozen=True, kw_only=True)
class StateSize:
    """The size of a store, over all tasks.

    Args:
        entries: keys, or keys and windows.
        live_bytes: the entries on disk, before compression.
        disk_bytes: what the disk needs: compressed, with superseded entries.
    """

    entries: int
    live_bytes: float
    disk_bytes: float


def estimate_state_size(
    *,
    keys: int,
    key_bytes: int,
    value_bytes: int,
    retention: Duration | None = None,
    advance: Duration | None = None,
    compression_ratio: float = 1.0,
    space_amplification: float = SPACE_AMPLIFICATION,
) -> StateSize:
    """Returns how much disk a store takes.

    ``entries = keys``, or ``keys x live_windows(retention, advance)`` for a window store;
    ``live = entries x (key + value + 8 timestamp + 13 RocksDB [+ 20 window])``;
    ``disk = live x compression_ratio x space_amplification``. For data that does not compress this is what the files
    hold, within a tenth; what sorted neighbours share is left out or compresses, so short entries take up to a fifth
    less, and those of window stores, where the windows of a key lie beside each other, up to a third less. Write
    buffers (16 MiB a store) are in memory, not here.

    Args:
        keys: different keys; of a window store those that come within one window.
        key_bytes: length of a serialized key.
        value_bytes: length of a serialized value.
        retention: of a window store: how long a window is kept after its start; ``timedelta`` or milliseconds.
        advance: of a window store: distance between the starts of neighbouring windows.
        compression_ratio: what LZ4 leaves of the data: 1.0 for random bytes, about 0.2 to 0.5 for JSON.
        space_amplification: 1.0 for a store that is only added to.

    Raises:
        ConfigurationError: a number is out of its range, or only one of retention and advance is given.
        TopologyError: retention or advance is not above 0.
    """
    not_negative(keys=keys, key_bytes=key_bytes, value_bytes=value_bytes)
    positive(compression_ratio=compression_ratio, space_amplification=space_amplification)
    entry_bytes = key_bytes + TIMESTAMP_BYTES + value_bytes + ENTRY_BYTES
    entries = keys
    if retention is not None and advance is not None:
        entry_bytes += WINDOW_KEY_BYTES
        entries = keys * live_windows(retention, advance)
    elif retention is not None or advance is not None:
        raise ConfigurationError(
            "A window store needs retention and advance, and only one of them was given.",
            remedy="give both, or neither for a key-value store",
        )
    live = float(entries * entry_bytes)
    return StateSize(entries=entries, live_bytes=live, disk_bytes=live * compression_ratio * space_amplification)
