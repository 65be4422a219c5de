"""An application's tasks in this process, without Spark: they take what is there, and stop where a test wants."""

from __future__ import annotations

import time
from collections.abc import Collection
from uuid import uuid4

from millrace.config import StreamsConfig
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.preparation import Preparer
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, end_offsets
from millrace.state import DirectoryLock, StateDirectory
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology
from tests.waiting import PATIENCE

_LIMIT_S = 60.0


def process(config: StreamsConfig, topology: FrozenTopology, *, only: Collection[int] | None = None) -> dict[str, int]:
    """Runs the tasks, as a driver and its workers would, until all input is committed.

    Args:
        config: the application's configuration.
        topology: its topology.
        only: numbers of the sub-topologies that run; what they write for others waits.

    Returns:
        How many changelog records each task had to replay.
    """
    settings = config.client_settings("admin.")
    admin = KafkaAdmin(config.bootstrap_servers, settings=settings)
    lock = DirectoryLock(StateDirectory(config.state_dir).application(config.application_id))
    tasks: list[Task] = []
    try:
        with StatusPublisher(config.bootstrap_servers, config.application_id, client_settings=settings) as publisher:
            last = publisher.open()
            prepared = Preparer(config, topology).prepare(last, run_id=publisher.epoch)
            offsets = {topic_partition: start.offset for topic_partition, start in prepared.starts.items()}
            publisher.publish(_status(config, topology, publisher.epoch, offsets, prepared.topics))
            plans = [plan for plan in prepared.plans if only is None or plan.sub_topology.number in only]
            tasks = [Task(plan.task_spec(number)) for plan in plans for number in range(plan.tasks)]
            restored = dict.fromkeys((task.spec.name for task in tasks), 0)
            deadline = time.monotonic() + _LIMIT_S * PATIENCE
            while sum(_step(admin, config, task, offsets, restored) for task in tasks):
                assert time.monotonic() < deadline, "the input does not end"
            publisher.publish(_status(config, topology, publisher.epoch, offsets, prepared.topics))
    finally:
        for task in tasks:
            task.close()
        lock.release()
    return restored


def _step(
    admin: KafkaAdmin, config: StreamsConfig, task: Task, offsets: dict[TopicPartition, int], restored: dict[str, int]
) -> bool:
    topic_partitions = list(task.spec.inputs)
    # A commit is known before its marker is in the log; what it sent comes behind that.
    written, ends = end_offsets(admin, topic_partitions, End.HIGH_WATERMARK), end_offsets(admin, topic_partitions)
    ranges = {
        topic_partition: OffsetRange(
            offsets[topic_partition], max(ends[topic_partition], offsets[topic_partition]), ends[topic_partition]
        )
        for topic_partition in topic_partitions
    }
    rows = [
        read_gap(
            config,
            tuple(sorted({topic for topic, _ in topic_partitions})),
            topic_partition,
            start=each.start,
            end=each.end,
        )[0]
        for topic_partition, each in ranges.items()
        if each.end > each.start
    ]
    outcome = task.run_batch(TaskBatch(rows, ranges))
    restored[task.spec.name] += outcome.restored
    offsets.update(outcome.positions)
    return any(written[topic_partition] > offsets[topic_partition] for topic_partition in topic_partitions)


def _status(config, topology, epoch, offsets, topics) -> ApplicationStatus:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, {})[number] = offset
    return ApplicationStatus(
        application_id=config.application_id,
        state=ApplicationState.NOT_RUNNING,
        driver=DriverIdentity.of_this_process(),
        driver_epoch=epoch,
        run_id=uuid4().hex,
        topology_fingerprint=topology.fingerprint,
        topology_summary=topology.summary(),
        offsets=by_topic,
        topic_ids={name: topics[name].topic_id for name in by_topic},
        partitions={name: topics[name].partitions for name in by_topic},
        changelog_topic_ids={
            name: topics[name].topic_id
            for part in topology.sub_topologies
            for store in part.stores
            if store.source_topic is None and (name := store.changelog_topic(config.application_id)) in topics
        },
    )
