"""The savepoints of an application in short, for lists on a screen: without the offsets, the topology and the files."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from millrace.install.application import Application
from millrace.operations.savepoints.manage import list_savepoints
from millrace.operations.savepoints.manifest import Manifest, SavepointState


@dataclass(frozen=True, kw_only=True)
class SavepointSummary:
    """One savepoint.

    Args:
        name: its name.
        state: how far it is.
        created_at: when it was begun, seconds since the epoch.
        age_s: how long that is ago, seconds.
        took_s: from its begin to its completion, seconds; ``None`` where it is not complete.
        size_bytes: its files, those that it shares with others included.
        copied_bytes: what it added to the repository.
        parent: the savepoint before, whose files were not copied again.
        from_running: whether the application ran.
        reason: why it was taken; of one that failed, why.
    """

    name: str
    state: SavepointState
    created_at: float
    age_s: float
    took_s: float | None
    size_bytes: int
    copied_bytes: int
    parent: str | None
    from_running: bool
    reason: str


def summary(application: Application) -> tuple[SavepointSummary, ...]:
    """The savepoints of an application in whatever state, the oldest first.

    The driver does not know them: they are taken and kept by operations, so its control plane cannot list them.

    Raises:
        ConfigurationError: the application has no specification.
        SerializationError: a manifest cannot be read.
    """
    return summarized(list_savepoints(application), now=time.time())


def summarized(manifests: Iterable[Manifest], *, now: float) -> tuple[SavepointSummary, ...]:
    """As :func:`summary`, of manifests. Pure."""
    return tuple(
        SavepointSummary(
            name=each.name,
            state=each.state,
            created_at=each.created_at,
            age_s=max(0.0, now - each.created_at),
            took_s=None if each.completed_at is None else each.completed_at - each.created_at,
            size_bytes=each.size,
            copied_bytes=each.copied_bytes,
            parent=each.parent,
            from_running=each.from_running,
            reason=each.reason,
        )
        for each in manifests
    )
