"""The checkpoints of a stopped application: this process opens its stores, brings them up to date, and keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.driver.savepoint import ApplicationPoint, Checkpoints
from millrace.errors import OffsetsMovedError
from millrace.install.connection import admin_of
from millrace.kafka.groups import fence_transactional_ids
from millrace.kafka.offsets import committed_offsets
from millrace.state import DirectoryLock, StateDirectory, StateOptions, TaskState
from millrace.task.recovery import restore_to
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.topology.layout import start_transactional_id
from millrace.topology.parts import SubTopology
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology


def checkpoint_stopped(config: StreamsConfig, topology: FrozenTopology, savepoint: str) -> Checkpoints:
    """Makes the checkpoints of an application that does not run.

    Transactions that a killed task left open are ended first, and stores that are behind their committed offsets are
    brought forward from their changelogs, both as the next start would. A crash midway is harmless.

    Args:
        config: the application's configuration.
        topology: its topology.
        savepoint: name of the savepoint.

    Raises:
        StateDirectoryLockedError: it runs.
        OffsetsMovedError: another client moved the group's offsets.
        StateError: stores, changelogs and offsets do not fit.
    """
    point = ApplicationPoint(config, topology)
    directory = point.directory(savepoint)
    state = StateDirectory(config.state_dir).application(config.application_id)
    lock = DirectoryLock(state)
    try:
        shutil.rmtree(directory.parent, ignore_errors=True)
        directory.mkdir(parents=True)
        specs = task_specs(config, topology, point)
        if config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            fence_transactional_ids(
                config.bootstrap_servers,
                [
                    start_transactional_id(config.application_id),
                    *(each.transactional_id for each in specs if each.transactional_id),
                ],
                settings=config.client_settings("producer."),
            )
        held = {spec.name: _checkpoint_task(spec, directory) for spec in specs}
        return point.with_unprocessed(point.describe(directory, held))
    finally:
        lock.release()


def task_specs(config: StreamsConfig, topology: FrozenTopology, point: ApplicationPoint) -> list[TaskSpec]:
    """Returns all tasks over the topics as they are."""
    topics = point.input_topics()
    parts: dict[int, SubTopology] = {part.number: part for part in topology.sub_topologies}
    return [
        TaskSpec(
            part=SubTopologySpec(
                sub_topology=parts[task.sub_topology], config=config, run_id=0, topic_ids={}, partition_counts={}
            ),
            partition=task.partition,
            inputs=task.inputs,
        )
        for task in point.layout(topics).tasks.values()
    ]


def _checkpoint_task(spec: TaskSpec, directory: Path) -> dict[TopicPartition, int]:
    config = spec.config
    admin = admin_of(config)
    found = committed_offsets(admin, config.application_id, spec.inputs)
    signature = Signature.of(found)
    if signature is None or len(found) < len(spec.inputs):
        raise OffsetsMovedError(
            f"Task {spec.name}: the committed offsets of group {config.application_id} are missing or not its own.",
            remedy="start the application once, or restore the offsets from the status topic",
        )
    committed = {topic_partition: commit.offset for topic_partition, commit in found.items()}
    state = TaskState.open(spec.state_directory, spec.sub_topology.stores, options=StateOptions.from_config(config))
    try:
        restore_to(state, spec, committed, signature, lambda _: None)
        state.checkpoint(directory / spec.name)
    finally:
        state.close()
    return committed
