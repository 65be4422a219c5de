"""What may be asked of a store, and what comes back: plain data in bytes, between the server and its followers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    # The client, which imports this module, shall not need Arrow.
    from millrace.state import TaskPosition

BASE64 = "base64:"
"""What a key that is given as its bytes begins with."""
MAX_LIMIT = 1_000
"""Most entries of a page: what one task reads at one position, without letting other queries wait for long."""


class Operation(StrEnum):
    """The operations, under the names of Kafka Streams' read-only stores."""

    GET = "get"
    RANGE = "range"
    PREFIX = "prefix"
    ALL = "all"
    FETCH = "fetch"
    FETCH_ALL = "fetch_all"
    VERSIONS = "versions"


KEYED = frozenset({Operation.GET, Operation.FETCH, Operation.VERSIONS})
"""The operations that ask for one key, and so for one partition."""


@dataclass(frozen=True, kw_only=True)
class StoreQuery:
    """One question to the store of one task.

    Args:
        store: name of the store.
        operation: what is asked.
        key: the key's bytes, for operations on one key.
        from_key: first key of a range, its bytes; ``None`` is open.
        to_key: last key of a range, inclusive.
        prefix: what the keys begin with.
        from_time: first window start (of sessions: earliest end), milliseconds.
        to_time: last window start (of sessions: latest end), milliseconds, inclusive.
        as_of: the time for which a version is asked, milliseconds; ``None`` asks for the newest.
        limit: most entries of the answer.
        after: where the page before has ended, as its answer said.
    """

    store: str
    operation: Operation
    key: bytes | None = None
    from_key: bytes | None = None
    to_key: bytes | None = None
    prefix: bytes = b""
    from_time: int = 0
    to_time: int = 2**63 - 1
    as_of: int | None = None
    limit: int = 100
    after: bytes | None = None


class Entry(NamedTuple):
    """One entry of an answer.

    Args:
        key: bytes of the key, without window.
        value: bytes of the value.
        timestamp: that of the value, milliseconds.
        start: start of the window or session, milliseconds.
        end: end of the window (exclusive) or session (inclusive).
        valid_to: until when a version is valid, exclusive; ``None`` for the newest one.
    """

    key: bytes
    value: bytes
    timestamp: int
    start: int | None = None
    end: int | None = None
    valid_to: int | None = None


@dataclass(frozen=True, kw_only=True)
class StoreAnswer:
    """What a task's store holds, all of it as of one commit.

    Args:
        entries: in the order of the store.
        after: where the next page goes on; ``None`` where this one is the last of the task.
        position: the commit that the entries stand for.
        standby: whether they are from a standby's copy.
        looked_at_ms: when the application's writes were last looked for, milliseconds since the epoch.
    """

    entries: list[Entry]
    after: bytes | None
    position: TaskPosition
    looked_at_ms: int
    standby: bool = False
