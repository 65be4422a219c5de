"""The comparison of two topologies: what deploying one over the other would do to its state, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from millrace.errors import TopologyError
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.naming import is_generated_store_name
from millrace.topology.parts import TopologyParts
from millrace.topology.summary import SUMMARY_VERSION, summarize

_ON_UPDATE = EmitStrategy.WINDOW_UPDATE.value


class ChangeKind(StrEnum):
    """The kind of a change: what happens to a store or an internal topic."""

    ORPHANED = "orphaned"
    """It is not in the new topology; what it holds is not used any more."""
    INCOMPATIBLE = "incompatible"
    """It keeps its name and would be read as something else than it was written as."""
    NEW = "new"
    """It starts empty."""
    CHANGED = "changed"
    """It keeps what it holds, and something about it is different."""


@dataclass(frozen=True)
class Change:
    """A difference between two topologies.

    Args:
        kind: what happens.
        subject: name of the store or internal topic, without application prefix.
        text: the difference in one sentence.
    """

    kind: ChangeKind
    subject: str
    text: str


@dataclass(frozen=True)
class TopologyDiff:
    """The differences of two topologies that touch state.

    Args:
        changes: the worst kinds first.
        compatible: names of the stores and internal topics that stay as they are.
    """

    changes: tuple[Change, ...]
    compatible: tuple[str, ...] = ()

    @property
    def loses_state(self) -> bool:
        """Whether anything would be orphaned or misread."""
        return any(change.kind in (ChangeKind.ORPHANED, ChangeKind.INCOMPATIBLE) for change in self.changes)

    def of_kind(self, kind: ChangeKind) -> tuple[Change, ...]:
        """Returns the changes of one kind."""
        return tuple(change for change in self.changes if change.kind is kind)

    def __str__(self) -> str:
        if not self.changes:
            return "the state is compatible"
        lines = [f"{change.kind}: {change.text}" for change in self.changes]
        return "\n".join([*lines, *(f"compatible: {name} stays as it is" for name in self.compatible)])


_MEANING = {
    "grace": ": later records count from now on, or no longer",
    "retention": ": what is older than that is forgotten",
    "window before": ": records that came before find other partners from now on",
    "window after": ": records that came before find other partners from now on",
}
"""What a change means, where the fact alone does not say."""


def diff(old_summary: Mapping[str, Any], new: TopologyParts) -> TopologyDiff:
    """Compares the running topology's summary with the topology to be deployed.

    Args:
        old_summary: what :func:`millrace.topology.summary.summarize` gave for the running one, perhaps through JSON.
        new: the new topology.

    Raises:
        TopologyError: the summary is of a version that this one cannot read.
    """
    if old_summary.get("version") != SUMMARY_VERSION:
        raise TopologyError(
            f"The running topology's summary has version {old_summary.get('version')!r}, not {SUMMARY_VERSION}.",
            remedy="compare with the version of Millrace that wrote it",
        )
    new_summary = summarize(new)
    changes = [
        *_store_changes(old_summary["stores"], new_summary["stores"]),
        *_repartition_changes(old_summary["repartition_topics"], new_summary["repartition_topics"]),
        *_global_changes(old_summary.get("global_stores", {}), new_summary.get("global_stores", {})),
    ]
    order = list(ChangeKind)
    touched = {change.subject for change in changes}
    kept = [
        name
        for what in ("stores", "repartition_topics", "global_stores")
        for name in old_summary.get(what, {}).keys() & new_summary.get(what, {}).keys()
        if name not in touched
    ]
    return TopologyDiff(
        tuple(sorted(changes, key=lambda change: (order.index(change.kind), change.subject))), tuple(sorted(kept))
    )


def _store_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in old.keys() - new.keys():
        yield Change(ChangeKind.ORPHANED, name, _orphaned(name, old, new))
    for name in new.keys() - old.keys():
        yield Change(ChangeKind.NEW, name, f"store {name} is new and starts empty")
    for name in old.keys() & new.keys():
        yield from _compare_store(name, old[name], new[name])


def _orphaned(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    store = old[name]
    backing = f" and its changelog {name}-changelog" if store["logged"] else ""
    text = f"store {name}{backing} would not be used any more"
    if is_generated_store_name(name):
        successors = sorted(
            other for other in new.keys() - old.keys() if is_generated_store_name(other) and _alike(store, new[other])
        )
        if successors:
            text += f"; its generated name probably moved to {' or '.join(successors)}, which would start empty"
    return text


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("kind", "operator", "aggregation", "windows", "origin"))


def _compare_store(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    old_suppression, new_suppression = old.get("suppression", {}), new.get("suppression", {})
    old_windows, new_windows = old.get("windows", {}), new.get("windows", {})
    facts = {
        "shape": (old["kind"], new["kind"]),
        "operator": (old["operator"], new["operator"]),
        "aggregation": (old.get("aggregation"), new.get("aggregation")),
        "key serde": (old["key_serde"], new["key_serde"]),
        "value serde": (old["value_serde"], new["value_serde"]),
        "window size": (old_windows.get("size_ms"), new_windows.get("size_ms")),
        "window start": (old_windows.get("start_ms"), new_windows.get("start_ms")),
        "inactivity gap": (old_windows.get("gap_ms"), new_windows.get("gap_ms")),
        "longest duration": (old_windows.get("longest_ms"), new_windows.get("longest_ms")),
        "suppression until": (old_suppression.get("until"), new_suppression.get("until")),
        "window advance": (old_windows.get("advance_ms"), new_windows.get("advance_ms")),
        "kind of join": (old_windows.get("kind"), new_windows.get("kind")),
    }
    if is_generated_store_name(name):
        facts["inputs"] = (old["origin"], new["origin"])
    broken = [f"{fact} {before} becomes {after}" for fact, (before, after) in facts.items() if before != after]
    if broken:
        text = f"store {name} would be read as something else: {'; '.join(broken)}"
        yield Change(ChangeKind.INCOMPATIBLE, name, text)
    softer = {
        "window before": (old_windows.get("before_ms"), new_windows.get("before_ms")),
        "window after": (old_windows.get("after_ms"), new_windows.get("after_ms")),
        "logging": (_logging(old), _logging(new)),
        "changelog": (old["source_topic"], new["source_topic"]),
        "grace": (old_windows.get("grace_ms"), new_windows.get("grace_ms")),
        "retention": (old_windows.get("retention_ms"), new_windows.get("retention_ms")),
        "results are sent": (old.get("emit", _ON_UPDATE), new.get("emit", _ON_UPDATE)),
        "wait": (old_suppression.get("wait_ms"), new_suppression.get("wait_ms")),
        "most records": (old_suppression.get("max_records"), new_suppression.get("max_records")),
        "most bytes": (old_suppression.get("max_bytes"), new_suppression.get("max_bytes")),
        "full buffer": (old_suppression.get("when_full"), new_suppression.get("when_full")),
        "sub-topology": (old["sub_topology"], new["sub_topology"]),
    }
    if not is_generated_store_name(name):
        softer["inputs"] = (old["origin"], new["origin"])
    for fact, (before, after) in softer.items():
        if before != after:
            text = f"store {name} keeps its content; {fact} {before} becomes {after}{_MEANING.get(fact, '')}"
            yield Change(ChangeKind.CHANGED, name, text)
    yield from _compare_backends(name, old, new)


def _logging(store: Mapping[str, Any]) -> str:
    return "a changelog" if store["logged"] else "no changelog of its own"


def _compare_backends(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = old.get("backend", "rocksdb"), new.get("backend", "rocksdb")
    if before == after:
        return
    moved = f"store {name} moves from {before} to {after}"
    if old["logged"] or old["source_topic"] is not None:
        yield Change(ChangeKind.CHANGED, name, f"{moved}, and is restored from its changelog")
    else:
        yield Change(ChangeKind.INCOMPATIBLE, name, f"{moved} and starts empty, since it has no changelog")


def _repartition_changes(old: Mapping[str, int | None], new: Mapping[str, int | None]) -> Iterator[Change]:
    for name in old.keys() - new.keys():
        text = f"repartition topic {name} would not be read any more; records that wait in it would be lost"
        yield Change(ChangeKind.ORPHANED, name, text)
    for name in new.keys() - old.keys():
        yield Change(ChangeKind.NEW, name, f"repartition topic {name} is new")
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            text = f"repartition topic {name} is asked to have {new[name] or 'its inputs'} partitions, not {old[name]}"
            yield Change(ChangeKind.INCOMPATIBLE, name, text)


def _global_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """What a global store holds comes from its topic alone, so nothing of it can be lost or misread."""
    for name in old.keys() - new.keys():
        text = f"global store {name} of topic {old[name]['topic']} would not be used any more; its topic has all of it"
        yield Change(ChangeKind.CHANGED, name, text)
    for name in new.keys() - old.keys():
        yield Change(ChangeKind.NEW, name, f"global store {name} is new and is read from topic {new[name]['topic']}")
    for name in old.keys() & new.keys():
        facts = ("topic", "kind", "operator", "key_serde", "value_serde")
        changed = [
            f"{fact} {old[name][fact]} becomes {new[name][fact]}"
            for fact in facts
            if old[name][fact] != new[name][fact]
        ]
        if changed:
            text = f"global store {name} is built again from its topic: {'; '.join(changed)}"
            yield Change(ChangeKind.CHANGED, name, text)
