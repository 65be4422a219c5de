"""An expected load, and what of it reaches each node of a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.errors import ConfigurationError
from millrace.sizing import log_record_bytes
from millrace.topology.partitions import repartition_partition_counts
from millrace.topology.summary import origin_topics
from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True, kw_only=True)
class ExpectedLoad:
    """What an application is planned for.

    Args:
        records_per_second: records of all input topics together; each has an equal part.
        record_bytes: value of a record.
        keys: different keys of a store; of a window store those that come within one window.
        key_bytes: key of a record.
        state_value_bytes: value of a store's entry; ``None``: as large as a record's.
        compression_ratio: what LZ4 leaves of the stores' data on disk: 1.0 for random bytes.
        utilization: share of the application's capacity that the load takes, below 1; for the catching up.
        standby_lag_s: how far a standby copy is behind, seconds.

    Raises:
        ConfigurationError: there are no records, keys or bytes.
    """

    records_per_second: float
    record_bytes: int
    keys: int
    key_bytes: int = 16
    state_value_bytes: int | None = None
    compression_ratio: float = 1.0
    utilization: float = 0.5
    standby_lag_s: float = 1.0

    def __post_init__(self) -> None:
        # The rest is checked by the formulas that take it.
        for name in ("records_per_second", "record_bytes", "keys"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(
                    f"{name} must be above 0, not {getattr(self, name)}.", remedy="give the load that is expected"
                )

    @property
    def value_bytes(self) -> int:
        """Value of a store's entry."""
        return self.record_bytes if self.state_value_bytes is None else self.state_value_bytes


class Traffic:
    """Records per second at each node: all of those of the input topics that feed it.

    Args:
        topology: the topology.
        load: the expected load.
        partitions: partitions of the input topics, and of the outputs as far as they are known.
    """

    def __init__(self, topology: FrozenTopology, load: ExpectedLoad, partitions: Mapping[str, int]) -> None:
        self.load = load
        self._topology = topology
        self._partitions = {**partitions, **repartition_partition_counts(topology, partitions)}
        self._records_of_topic = load.records_per_second / len(topology.external_inputs)

    @property
    def records_of_topic(self) -> float:
        """Records per second of each input topic, those of global stores included."""
        return self._records_of_topic

    def records_into(self, node: str) -> float:
        """Records per second that reach a node at most, over all tasks."""
        return self._records_of_topic * len(origin_topics(self._topology, node))

    def bytes_into(self, node: str) -> float:
        """The same in bytes of a topic, for a sink."""
        return self.records_into(node) * log_record_bytes(self.load.key_bytes, self.load.record_bytes)

    def records_through(self, repartition_topic: str) -> float:
        """Records per second in a repartition topic (its name without the application prefix)."""
        return sum(
            self.records_into(sink.name)
            for part in self._topology.sub_topologies
            for sink in part.sinks
            if sink.internal and sink.topic == repartition_topic
        )

    def partitions_of(self, topic: str, *, otherwise: int) -> int:
        """Partitions of a topic; repartition topics stand without the application prefix."""
        return self._partitions.get(topic, otherwise)
