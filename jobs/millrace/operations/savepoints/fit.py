"""Whether a savepoint fits what it is to be restored into. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from millrace.errors import OperationError, TopologyError
from millrace.operations.savepoints.manifest import Manifest
from millrace.topology.diff import ChangeKind, diff
from millrace.topology.topology import FrozenTopology


class RestoreMode(StrEnum):
    """How stores come back."""

    INSTALL = "install"
    """Each task gets the files of its stores."""
    REWRITE = "rewrite"
    """The stores go to the changelogs only, row by row to the task that has the row's key now."""


def check_topology(manifest: Manifest, topology: FrozenTopology, *, dropped: Collection[str]) -> tuple[str, ...]:
    """Refuses a topology that would misread or leave behind what the savepoint has.

    Args:
        manifest: the savepoint.
        topology: what it is restored into.
        dropped: stores and repartition topics that may be left behind.

    Returns:
        Stores that the savepoint has and the topology has not, all of them allowed.

    Raises:
        TopologyError: lists the stores and topics.
    """
    found = diff(manifest.summary, topology)
    orphaned = found.of_kind(ChangeKind.ORPHANED)
    refused = [
        *found.of_kind(ChangeKind.INCOMPATIBLE),
        *(change for change in orphaned if change.subject not in dropped),
    ]
    if refused:
        raise TopologyError(
            f"The topology does not fit savepoint {manifest.name} of {manifest.application}: "
            + "; ".join(change.text for change in refused)
            + ".",
            remedy="name the stores and repartition topics as they were (Materialized, Grouped); where what one holds "
            "is not needed, allow it to be dropped with `--allow-dropped-store NAME`",
        )
    return tuple(change.subject for change in orphaned)


def check_outputs(manifest: Manifest, topology: FrozenTopology, *, shared: Collection[str]) -> None:
    """Refuses a clone that would write to the outputs of the original.

    Args:
        manifest: the savepoint of the original.
        topology: the clone's.
        shared: outputs that both may write to.

    Raises:
        OperationError: lists the topics.
    """
    assert manifest.point is not None
    both = sorted((set(manifest.point.output_ends) & topology.external_outputs) - set(shared))
    if both:
        raise OperationError(
            f"The clone would write to the topics that {manifest.application} writes to: {', '.join(both)}.",
            remedy="give it a module with output topics of its own, or allow it with `--allow-shared-output TOPIC`",
        )


def irrevocable(manifest: Manifest, ends: Mapping[str, Mapping[int, int]]) -> list[str]:
    """What was written to output topics since the savepoint, and stays there.

    Args:
        manifest: the savepoint.
        ends: end of each partition of the output topics now.
    """
    assert manifest.point is not None
    return [
        f"{topic}-{partition} offsets {then} to {now}"
        for topic, partitions in sorted(ends.items())
        for partition, now in sorted(partitions.items())
        if (then := manifest.point.output_ends.get(topic, {}).get(partition, 0)) < now
    ]


def unlogged_stores(summary: Mapping[str, Any], mode: RestoreMode) -> list[str]:
    """Stores that start empty, since no changelog brings them back and no file does.

    Args:
        summary: of the savepoint's topology.
        mode: how stores come back.
    """
    return sorted(
        name
        for name, store in summary["stores"].items()
        if not store["logged"]
        and store["source_topic"] is None
        and (mode is RestoreMode.REWRITE or store.get("backend", "rocksdb") != "rocksdb")
    )
