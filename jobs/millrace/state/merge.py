"""The merge of committed entries with an overlay of uncommitted ones, in key order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millrace.state.layout import Packed


def merge_overlay(
    committed: Iterator[tuple[bytes, bytes]], overlay: Mapping[bytes, Packed]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries in key order, as a reader sees them together with uncommitted writes.

    Args:
        committed: committed entries in key order.
        overlay: uncommitted writes of the same range, in any order; ``None`` hides a committed entry.
    """
    pending = iter(sorted(overlay))
    written = next(pending, None)
    for key, value in committed:
        while written is not None and written < key:
            packed = overlay[written]
            if packed is not None:
                yield written, packed
            written = next(pending, None)
        if written == key:
            packed = overlay[key]
            if packed is not None:
                yield key, packed
            written = next(pending, None)
        else:
            yield key, value
    while written is not None:
        packed = overlay[written]
        if packed is not None:
            yield written, packed
        written = next(pending, None)
