"""The requests to a store and their answers: plain data in bytes, between the server and its followers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    # The client, which imports this module, should not need Arrow.
    from millrace.state import TaskPosition

TaskId = tuple[int, int]
"""Sub-topology and partition."""
BASE64 = "base64:"
"""What a key that is given as its bytes begins with."""
MAX_LIMIT = 1_000
"""Most entries of a page: what one task reads at one position, without letting other queries wait for long."""


class Operation(StrEnum):
    """The operations, under the names of Kafka Streams' read-only stores."""

    GET = "get"
    GET_MANY = "get_many"
    RANGE = "range"
    PREFIX = "prefix"
    ALL = "all"
    FETCH = "fetch"
    FETCH_ALL = "fetch_all"
    VERSIONS = "versions"


LOOKUPS = frozenset({Operation.GET, Operation.GET_MANY})
"""The operations that ask for the values of keys and nothing else."""
KEYED = LOOKUPS | {Operation.FETCH, Operation.VERSIONS}
"""The operations that ask for keys; but for ``get_many`` for one, and so for one partition."""


@dataclass(frozen=True, kw_only=True)
class StoreQuery:
    """A query to the store of one task; its answer is a list of entries.

    Args:
        store: name of the store.
        operation: what is asked; values of keys are asked for by a :class:`Lookup`.
        key: the key's bytes, for operations on one key.
        from_key: first key of a range, its bytes; ``None`` is open.
        to_key: last key of a range, inclusive.
        prefix: what the keys begin with.
        from_time: first window start (of sessions: earliest end), milliseconds.
        to_time: last window start (of sessions: latest end), milliseconds, inclusive.
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
    limit: int = 100
    after: bytes | None = None

    def __post_init__(self) -> None:
        if self.operation in LOOKUPS:
            raise ValueError(f"{self.operation} is a Lookup")


class Entry(NamedTuple):
    """An entry of an answer.

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


class View(NamedTuple):
    """The commit of a task that answers are from.

    Args:
        position: the commit.
        looked_at_ms: when the application's writes were last looked for, milliseconds since the epoch.
        standby: whether it is that of a standby's copy.
    """

    position: TaskPosition
    looked_at_ms: int
    standby: bool


@dataclass(frozen=True, kw_only=True)
class StoreAnswer:
    """The entries of a task's store, all from one commit.

    Args:
        entries: in the order of the store.
        after: where the next page goes on; ``None`` where this one is the last of the task.
        view: the commit that the entries stand for.
    """

    entries: list[Entry]
    after: bytes | None
    view: View


class Lookup(NamedTuple):
    """The values of some keys in the store of one task: the common case, kept small.

    Args:
        task: the task.
        store: name of the store.
        keys: their bytes.
        as_of: of a versioned store the time for which the versions are asked, milliseconds.
        standby: whether a standby's copy will do.
    """

    task: TaskId
    store: str
    keys: tuple[bytes, ...]
    as_of: int | None = None
    standby: bool = False


class Found(NamedTuple):
    """The result of a lookup.

    Args:
        entries: in the order of the keys; ``None`` where the store does not have a key.
        view: the commit; ``None`` stands for that of the answer to this task before, which is sent once only.
    """

    entries: list[Entry | None]
    view: View | None
