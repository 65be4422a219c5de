"""What an audit found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class DifferenceKind(StrEnum):
    """How a store and its changelog differ under one key."""

    OTHER_VALUE = "other value"
    ONLY_IN_STORE = "only in the store"
    ONLY_IN_CHANGELOG = "only in the changelog"
    UNREADABLE = "unreadable"
    """The store's files are damaged behind what was compared."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One key.

    Args:
        store: name of the store.
        task: the task.
        kind: how they differ.
        key: in the layout of the changelog; of an older version in a versioned store, its local row.
        stored: the store's value, ``None`` where it has none.
        stored_at: its timestamp, milliseconds; ``None`` where the store keeps none.
        logged: the changelog's value.
        logged_at: its timestamp.
        text: what cannot be read, and why.
    """

    store: str
    task: str
    kind: DifferenceKind
    key: bytes = b""
    stored: bytes | None = None
    stored_at: int | None = None
    logged: bytes | None = None
    logged_at: int | None = None
    text: str = ""

    def document(self) -> dict[str, Any]:
        """The difference as JSON; bytes that are no text are hexadecimal behind ``0x``."""
        values = asdict(self)
        return {key: readable(value) if isinstance(value, bytes) else value for key, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class StoreAudit:
    """One store of one task.

    Args:
        store: name of the store.
        task: the task.
        keys: rows of the store that were compared.
        records: changelog records that were replayed.
        differences: how many there are.
        skipped: why it was not audited; empty where it was.
    """

    store: str
    task: str
    keys: int = 0
    records: int = 0
    differences: int = 0
    skipped: str = ""


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found.

    Args:
        application: the application.
        running: whether it ran.
        sample: share of the keys that were compared.
        held_s: for how long no batch ran, seconds.
        took_s: seconds that all of it took.
        stores: each store of each task.
        differences: the first ones.
    """

    application: str
    running: bool
    sample: float
    held_s: float
    took_s: float
    stores: tuple[StoreAudit, ...]
    differences: tuple[Difference, ...] = field(default=())

    @property
    def agrees(self) -> bool:
        """Whether nothing differs in what was compared."""
        return not any(each.differences for each in self.stores)

    def document(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            **asdict(self),
            "agrees": self.agrees,
            "differences": [difference.document() for difference in self.differences],
        }


def readable(data: bytes) -> str:
    """Bytes for people."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and (text or not data) else f"0x{data.hex()}"
