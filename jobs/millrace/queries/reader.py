"""The reading of one store of a task as of its last commit, with the code by which the task itself reads it.

Keys of the local database are in the order in which every store is gone through, so a page ends at one of them and the
next begins behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Entry, Operation, StoreAnswer, StoreQuery, View
from millrace.queries.secondary import Secondary
from millrace.state.layout import after_prefix, big_endian, local_window_keys, unpack_value
from millrace.state.segments import Segments
from millrace.state.session import LayeredSessionStore, session_key
from millrace.state.versioned import VersionedKeyValueStore
from millrace.state.versioned_layout import HistorySegments, latest_row
from millrace.state.versions import VersionedRecord
from millrace.state.window import LayeredWindowStore
from millrace.topology.stores import StoreKind, StoreSpec

_LONGEST = 2**63 - 1
_Found = Iterator[tuple[bytes, Entry]]
"""Entries, each with its key in the store, behind which the next page begins."""


def read(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> StoreAnswer:
    """Returns the answer of a task's store.

    Args:
        secondary: the task's database, at a commit.
        spec: the store.
        query: what is asked, of what a store of this kind answers.

    Raises:
        QueryRefusedError: the store has not been restored yet.
        StateError: the database cannot be read.
    """
    view = _view(secondary, spec)
    found = _READERS[spec.kind](secondary, spec, query)
    some = list(islice(found, query.limit + 1))
    more = len(some) > query.limit
    kept = some[: query.limit]
    return StoreAnswer(
        entries=[entry for _, entry in kept],
        after=kept[-1][0] if more else None,
        view=view,
    )


def look_up(
    secondary: Secondary, spec: StoreSpec, keys: Sequence[bytes], as_of: int | None = None
) -> tuple[list[Entry | None], View]:
    """Returns the entries of some keys, ``None`` for missing ones, and the commit that they are from.

    Args:
        secondary: the task's database, at a commit.
        spec: a key-value or versioned store.
        keys: the keys.
        as_of: of a versioned store the time, milliseconds; ``None`` asks for the newest versions.

    Raises:
        QueryRefusedError: the store has not been restored yet.
        StateError: the database cannot be read.
    """
    view = _view(secondary, spec)
    if spec.kind is StoreKind.KEY_VALUE:
        packed = secondary.bytes_store(spec.name).get_many(keys)
        found = [
            None if value is None else Entry(key, *unpack_value(value)) for key, value in zip(keys, packed, strict=True)
        ]
        return found, view
    store = _versioned_store(secondary, spec)
    return [_version(key, store.get(key, as_of)) for key in keys], view


def _view(secondary: Secondary, spec: StoreSpec) -> View:
    if secondary.view is None or not secondary.has_store(spec.name):
        raise QueryRefusedError(
            Reason.RESTORING,
            f"Store {spec.name} stands for no commit yet: it is being restored.",
            remedy="ask again later",
        )
    return secondary.view


def _version(key: bytes, version: VersionedRecord | None) -> Entry | None:
    return None if version is None else Entry(key, version.value, version.timestamp, valid_to=version.valid_to)


def _key_value(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    store = secondary.bytes_store(spec.name, query.after)
    if query.operation is Operation.PREFIX:
        first, before = query.prefix, after_prefix(query.prefix)
    elif query.operation is Operation.RANGE:
        first, before = query.from_key or b"", None if query.to_key is None else query.to_key + b"\0"
    else:
        first, before = b"", None
    for key, packed in store.scan(first, before):
        yield key, Entry(key, *unpack_value(packed))


def _window(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    segments = Segments(retention_ms=spec.retention_ms).restored(secondary.segments(spec.name))
    store = LayeredWindowStore(
        spec.name,
        secondary.bytes_store(spec.name, query.after),
        changelog=None,
        segments=segments,
        read_cache_bytes=0,
    )
    found: Iterator[tuple[bytes, int, bytes, int]]
    if query.operation is Operation.FETCH:
        assert query.key is not None
        key = query.key
        found = ((key, *entry) for entry in store.fetch(key, query.from_time, query.to_time))
    else:
        found = store.fetch_all(query.from_time, query.to_time)
    for key, start, value, timestamp in found:
        [store_key] = local_window_keys([key], start, segments.segment_of(start))
        end = min(start + spec.window_size_ms, _LONGEST)
        yield store_key, Entry(key, value, timestamp, start, end)


def _session(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    segments = Segments(retention_ms=spec.retention_ms).restored(secondary.segments(spec.name))
    store = LayeredSessionStore(
        spec.name,
        secondary.bytes_store(spec.name, query.after),
        changelog=None,
        cached=False,
        segments=segments,
        read_cache_bytes=0,
    )
    if query.operation is Operation.FETCH:
        assert query.key is not None
        key = query.key
        sessions = store.find_sessions(key, max(query.from_time, 0), _LONGEST)
        found = ((key, session) for session in sessions if session.end <= query.to_time)
    else:
        found = ((each, session) for each, session in store.find_ended(query.from_time, query.to_time))
    for key, session in found:
        store_key = big_endian(segments.segment_of(session.end)) + session_key(key, session.start, session.end)
        yield store_key, Entry(key, session.value, session.timestamp, session.start, session.end)


def _versioned(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    resumes = query.operation is Operation.ALL
    store = _versioned_store(secondary, spec, query.after if resumes else None)
    if resumes:
        for key, value, timestamp in store.all():
            yield latest_row(key), Entry(key, value, timestamp)
        return
    assert query.key is not None
    versions = store.versions(query.key, query.from_time, query.to_time)
    after = -1 if query.after is None else int.from_bytes(query.after, "big")
    for version in versions:
        if version.timestamp > after:
            yield (
                big_endian(version.timestamp),
                Entry(query.key, version.value, version.timestamp, valid_to=version.valid_to),
            )


def _versioned_store(secondary: Secondary, spec: StoreSpec, after: bytes | None = None) -> VersionedKeyValueStore:
    segments = HistorySegments(
        retention_ms=spec.history_retention_ms, segment_interval_ms=spec.segment_interval_ms
    ).restored(secondary.segments(spec.name))
    return VersionedKeyValueStore(
        spec.name, secondary.bytes_store(spec.name, after), changelog=None, segments=segments, read_cache_bytes=0
    )


_READERS = {
    StoreKind.KEY_VALUE: _key_value,
    StoreKind.WINDOW: _window,
    StoreKind.SESSION: _session,
    StoreKind.VERSIONED: _versioned,
}
