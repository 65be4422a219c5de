"""``TableJoined``: the options of a join of two tables by a foreign key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.dsl.options import check_partitioner
from millrace.topology.arguments import checks_arguments
from millrace.topology.naming import check_name
from millrace.topology.partitioners import Partitioner


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class TableJoined:
    """The options of joining two tables by a foreign key.

    Source: ``org.apache.kafka.streams.kstream.TableJoined`` (KIP-775).

    A partitioner says how a table's topic is partitioned already, so that the join's own topics are partitioned alike.
    It gets ``None`` for the value, since it must go by the key alone, and must give exactly one partition.

    Args:
        name: first part of the names of the join's nodes, topics and store.
        partitioner: of the table that has the foreign key; ``None``: responses go to the partition that the row came
            from.
        other_partitioner: of the table that is looked up by its key; ``None`` takes the murmur2 hash of the key's
            bytes.
    """

    name: str | None = None
    partitioner: Partitioner | None = None
    other_partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        for partitioner in (self.partitioner, self.other_partitioner):
            check_partitioner(partitioner, value="None")

    @classmethod
    def as_(cls, name: str) -> TableJoined:
        """Names all parts of the join."""
        return cls().with_name(name)

    @classmethod
    def with_(cls, partitioner: Partitioner | None = None, other_partitioner: Partitioner | None = None) -> TableJoined:
        """Sets the partitioners."""
        return cls().with_partitioner(partitioner).with_other_partitioner(other_partitioner)

    def with_name(self, name: str) -> TableJoined:
        """Names all parts of the join."""
        return replace(self, name=check_name(name, what="node"))

    def with_partitioner(self, partitioner: Partitioner | None) -> TableJoined:
        """Sets the partitioner of the table that has the foreign key."""
        return replace(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: Partitioner | None) -> TableJoined:
        """Sets the partitioner of the table that is looked up by its key."""
        return replace(self, other_partitioner=other_partitioner)
