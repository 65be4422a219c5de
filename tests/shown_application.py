"""An application as a driver shows it, made of a real topology, real status and real metrics: for pages to show."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus
from millrace.metrics.definitions import DropReason, TransactionOutcome
from millrace.metrics.registry import ApplicationMetrics
from millrace.metrics.statistics import TaskStatistics
from millrace.topology.nodes import SinkNode
from millrace.topology.summary import summarize
from millrace.topology.topology import FrozenTopology

RATE = 120
PARTITIONS = 2


@dataclass
class ShownApplication:
    """What a driver that has run since ``started_at`` would say.

    Args:
        name: its name.
        topology: what it runs.
        started_at: seconds since the epoch.
    """

    name: str
    topology: FrozenTopology
    started_at: float = field(default_factory=time.time)

    def status(self, now: float, *, lag: int = 0, restoring: int = 0, paused: bool = False) -> ApplicationStatus:
        """Its status.

        Args:
            now: seconds since the epoch.
            lag: records behind, on each partition.
            restoring: changelog records that the first task has still to apply.
            paused: whether it is paused.
        """
        seconds = now - self.started_at
        topics = {topic for part in self.topology.sub_topologies for node in part.sources for topic in node.topics}
        progress = {}
        for part in self.topology.sub_topologies:
            tasks = {f"{part.number}_{partition}": "RUNNING" for partition in range(PARTITIONS)}
            first = f"{part.number}_0"
            remaining = {first: restoring} if restoring else {}
            progress[part.number] = SubTopologyStatus(
                batches=int(seconds * 2),
                batch_id=int(seconds * 2),
                records=int(seconds * RATE),
                active=True,
                last_batch_started_at=now - 1,
                last_batch_finished_at=now - 0.4,
                last_commit_at=now - 0.4,
                lag=lag * PARTITIONS,
                lag_since=now - 30 if lag else None,
                last_progress_at=now,
                task_states=tasks | ({first: "RESTORING"} if restoring else {}),
                restore_remaining=remaining,
                restore_rates=dict.fromkeys(remaining, 25_000.0),
            )
        all_tasks = [task for each in progress.values() for task in each.task_states]
        return ApplicationStatus(
            application_id=self.name,
            state=ApplicationState.REBALANCING if restoring else ApplicationState.RUNNING,
            paused=paused,
            driver=DriverIdentity.of_this_process(),
            driver_epoch=3,
            topology_fingerprint="f",
            topology_summary=summarize(self.topology),
            offsets={
                topic: {p: int(seconds * RATE / PARTITIONS) for p in range(PARTITIONS)} for topic in sorted(topics)
            },
            lag={topic: dict.fromkeys(range(PARTITIONS), lag) for topic in sorted(topics)},
            progress=progress,
            task_hosts={task: f"worker-{number % 2}.example/41{number}" for number, task in enumerate(all_tasks)},
            processing_guarantee="exactly_once_v2",
            started_at=self.started_at,
            updated_at=now,
        )

    def metrics(self, now: float) -> bytes:
        """Its metrics in Prometheus' text format."""
        seconds = max(0.0, now - self.started_at)
        metrics = ApplicationMetrics(self.name)
        for part in self.topology.sub_topologies:
            sinks = [node.topic for node in part.nodes if isinstance(node, SinkNode) and node.topic]
            for partition in range(PARTITIONS):
                metrics.record(
                    TaskStatistics(
                        task_id=f"{part.number}_{partition}",
                        batch_id=1,
                        run_id="1",
                        host="worker",
                        pid=1,
                        records_in=int(seconds * RATE / PARTITIONS),
                        records_out={topic: int(seconds * RATE / 4) for topic in sinks},
                        dropped={DropReason.LATE: 12},
                        dead_letters=2,
                        transactions_committed=int(seconds * 2),
                        store_entries={store.name: 51_234 for store in part.stores},
                        store_bytes={store.name: 12_345_678 for store in part.stores},
                    )
                )
        metrics.count_transaction(f"{self.topology.sub_topologies[0].number}_0", TransactionOutcome.ABORTED)
        metrics.count_query_restart(self.topology.sub_topologies[0].number)
        return metrics.exposition()
