"""Three embedded brokers as one cluster: topics outlive the loss of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millrace.embedded.broker import EmbeddedBroker, new_cluster_id
from millrace.kafka.jars import BROKER_JARS, Progress, resolve_jars

NODES = 3

_PROPERTIES: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # All nodes share this machine's cores: one that waits for them must not be taken for a dead one at once.
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.election.timeout.ms": "5000",
    "broker.session.timeout.ms": "15000",
}


class EmbeddedCluster:
    """Three nodes, each broker and controller in a process of its own; see :class:`EmbeddedBroker`.

    Every topic has three replicas, and a write counts once two of them have it. For demonstrations and tests: a
    directory serves one object, from its start to its end.

    Args:
        directory: where the nodes keep everything, ``node-1`` to ``node-3``.
        heap: ``-Xmx`` of each node.
        home: where the jars are; default :func:`millrace.home.millrace_home`.
    """

    def __init__(self, directory: Path, *, heap: str = "384m", home: Path | None = None) -> None:
        self._home = home
        cluster_id = new_cluster_id()
        self.nodes = tuple(
            EmbeddedBroker(
                directory / f"node-{number}",
                heap=heap,
                properties={**_PROPERTIES, "node.id": str(number)},
                home=home,
                cluster_id=cluster_id,
            )
            for number in range(1, NODES + 1)
        )
        voters = ",".join(f"{node.properties['node.id']}@{node.controller}" for node in self.nodes)
        for node in self.nodes:
            node.properties["controller.quorum.voters"] = voters

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all nodes, for clients."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def start(self, *, timeout_s: float = 600, progress: Progress | None = None) -> None:
        """Starts all nodes at once, since none of them answers alone, and waits until all do.

        Args:
            timeout_s: how long each may take to answer, seconds.
            progress: gets a line of text for each step.

        Raises:
            OperationError, BrokerUnavailableError, PreflightError: see :meth:`EmbeddedBroker.start`; all are ended.
        """
        resolve_jars(BROKER_JARS, home=self._home, progress=progress)
        try:
            self._each(lambda node: node.start(timeout_s=timeout_s, progress=progress))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends all nodes at once (SIGKILL), since an orderly end needs a majority. Idempotent."""
        self._each(EmbeddedBroker.kill)

    def _each(self, action: Callable[[EmbeddedBroker], object]) -> None:
        with ThreadPoolExecutor(NODES) as threads:
            list(threads.map(action, self.nodes))
