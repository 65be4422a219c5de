"""A frozen topology with its description, summary, comparison and fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millrace.topology.describe import describe
from millrace.topology.diff import TopologyDiff, diff
from millrace.topology.fingerprint import fingerprint
from millrace.topology.parts import TopologyParts
from millrace.topology.summary import summarize


@dataclass(frozen=True, kw_only=True)
class FrozenTopology(TopologyParts):
    """The topology that ``StreamsBuilder.build`` returns: checked, named, split; plain data, as its parts are."""

    def describe(self) -> str:
        """Returns the text that Kafka Streams' ``Topology#describe()`` gives for the same topology."""
        return describe(self)

    def summary(self) -> dict[str, Any]:
        """Returns the topology as JSON-compatible data, for the status topic."""
        return summarize(self)

    def diff(self, other: FrozenTopology) -> TopologyDiff:
        """Returns what deploying ``other`` over this topology would do to its state, in words.

        Returns:
            what would be orphaned, misread, new or changed, and what stays as it is.
        """
        return diff(self.summary(), other)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash over names, operators, stores and topics: equal for topologies whose state is compatible."""
        return fingerprint(self)
