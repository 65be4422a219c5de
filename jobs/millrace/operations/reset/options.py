"""The options of a reset."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.operations.reset.targets import Target, ToEarliest


@dataclass(frozen=True, kw_only=True)
class ResetOptions:
    """The options of a reset.

    Args:
        to: where the input topics go.
        input_topics: which of them; none given means all. The others stay where they are.
        internal_topics: which of the internal topics are deleted; none given means all. A changelog that is kept keeps
            its store, a repartition topic that is kept keeps what is in it.
        keeps_waiting: whether, of the internal topics, those repartition topics are kept, with what waits in them, that
            the next topology has with as many partitions.
        discards_topology: whether the next start takes any topology although internal topics are kept.
        output_topics: outputs whose records are deleted.
        empties_dead_letters: whether the records of the dead-letter topic are deleted.
        deletes_savepoints: whether the application's savepoints are deleted; they are kept otherwise.
        stop: whether the application is stopped first, where this installation runs it.
        force: whether it is done although the group has members or a driver of another host gave a sign of life
            lately: for those that are dead and have not been missed yet.
    """

    to: Target = field(default_factory=ToEarliest)
    input_topics: frozenset[str] = frozenset()
    internal_topics: frozenset[str] = frozenset()
    keeps_waiting: bool = False
    discards_topology: bool = False
    output_topics: frozenset[str] = frozenset()
    empties_dead_letters: bool = False
    deletes_savepoints: bool = False
    stop: bool = False
    force: bool = False
