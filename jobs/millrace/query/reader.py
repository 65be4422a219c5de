"""Reads one store of a task as of its last commit, with the code that the task itself reads it with.

Keys of the local database are in the order in which every store is gone through, so a page ends at one of them and the
next begins behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from millrace.query.catalog import OPERATIONS
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import Entry, Operation, StoreAnswer, StoreQuery
from millrace.query.secondary import Secondary
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
"""Entries, each with its place: what the next page has to begin behind."""


def read(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> StoreAnswer:
    """The answer of a task's store.

    Args:
        secondary: the task's database, at a commit.
        spec: the store.
        query: what is asked.

    Raises:
        QueryRefusedError: the store does not know the operation; or it has not been restored yet.
        StateError: the database cannot be read.
    """
    if query.operation not in OPERATIONS[spec.kind]:
        known = ", ".join(OPERATIONS[spec.kind])
        raise QueryRefusedError(
            Reason.BAD_REQUEST,
            f"Store {spec.name} is a {spec.kind} store, which does not know {query.operation}.",
            remedy=f"ask it for {known}",
        )
    if secondary.position is None or not secondary.has_store(spec.name):
        raise QueryRefusedError(
            Reason.RESTORING,
            f"Store {spec.name} stands for no commit yet: it is being restored.",
            remedy="ask again later",
        )
    found = _READERS[spec.kind](secondary, spec, query)
    some = list(islice(found, query.limit + 1))
    more = len(some) > query.limit
    kept = some[: query.limit]
    return StoreAnswer(
        entries=[entry for _, entry in kept],
        after=kept[-1][0] if more else None,
        position=secondary.position,
        looked_at_ms=secondary.looked_at_ms,
        standby=secondary.position.standby,
    )


def _key_value(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    store = secondary.bytes_store(spec.name, query.after)
    if query.operation is Operation.GET:
        assert query.key is not None
        packed = store.get(query.key)
        if packed is not None:
            yield query.key, Entry(query.key, *unpack_value(packed))
        return
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
        found = ((key, *rest) for rest in store.fetch(key, query.from_time, query.to_time))
    else:
        found = store.fetch_all(query.from_time, query.to_time)
    for key, start, value, timestamp in found:
        [place] = local_window_keys([key], start, segments.segment_of(start))
        end = min(start + spec.window_size_ms, _LONGEST)
        yield place, Entry(key, value, timestamp, start, end)


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
        place = big_endian(segments.segment_of(session.end)) + session_key(key, session.start, session.end)
        yield place, Entry(key, session.value, session.timestamp, session.start, session.end)


def _versioned(secondary: Secondary, spec: StoreSpec, query: StoreQuery) -> _Found:
    segments = HistorySegments(
        retention_ms=spec.history_retention_ms, segment_interval_ms=spec.segment_interval_ms
    ).restored(secondary.segments(spec.name))
    resumes = query.operation is Operation.ALL
    store = VersionedKeyValueStore(
        spec.name,
        secondary.bytes_store(spec.name, query.after if resumes else None),
        changelog=None,
        segments=segments,
        read_cache_bytes=0,
    )
    if resumes:
        for key, value, timestamp in store.all():
            yield latest_row(key), Entry(key, value, timestamp)
        return
    assert query.key is not None
    versions: list[VersionedRecord]
    if query.operation is Operation.GET:
        version = store.get(query.key, query.as_of)
        versions = [] if version is None else [version]
    else:
        versions = store.versions(query.key, query.from_time, query.to_time)
    after = -1 if query.after is None else int.from_bytes(query.after, "big")
    for version in versions:
        if version.timestamp > after:
            entry = Entry(query.key, version.value, version.timestamp, valid_to=version.valid_to)
            yield big_endian(version.timestamp), entry


_READERS = {
    StoreKind.KEY_VALUE: _key_value,
    StoreKind.WINDOW: _window,
    StoreKind.SESSION: _session,
    StoreKind.VERSIONED: _versioned,
}
