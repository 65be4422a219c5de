"""The steps of a restoration. Each finds out for itself what an attempt before it has done."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from millrace.config import ProcessingGuarantee
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.preparation import Preparer
from millrace.driver.start_commits import number_of_run
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher
from millrace.errors import OperationError
from millrace.install.connection import admin_of
from millrace.install.which_spec import Use
from millrace.kafka.groups import fence_transactional_ids
from millrace.kafka.offsets import End, begin_offsets, committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicDescription
from millrace.operations import StepContext
from millrace.operations.savepoints.fit import RestoreMode
from millrace.operations.savepoints.location import Target, target_of
from millrace.operations.savepoints.log_writing import LogRange, LogWriter
from millrace.operations.savepoints.manifest import Manifest
from millrace.operations.savepoints.placing import Placing, by_topic
from millrace.operations.savepoints.repository import SavepointRepository
from millrace.operations.savepoints.staging import fetch, is_in_database, opened, saved_records, staging_directory
from millrace.state import DirectoryLock, StateDirectory, StateOptions, TaskPosition, TaskState
from millrace.state.custom import open_custom_store
from millrace.state.directory import DATABASE_DIRECTORY
from millrace.state.record_file import RecordBatch, read_records
from millrace.task.signature import Signature
from millrace.topology.layout import start_transactional_id, task_name, task_numbers, task_transactional_id
from millrace.topology.topic_partition import TopicPartition


def use_of(decisions: Mapping[str, Any]) -> Use:
    """Which specification a restoration goes by: a rollback's is what is launched again."""
    return Use.RUNNING if decisions.get("as_launched", False) else Use.DEPLOYMENT


class Restoration:
    """What the steps need to know, read again by each of them.

    Args:
        context: of the step.
    """

    def __init__(self, context: StepContext) -> None:
        decisions = context.plan.decisions
        self.context = context
        self.target: Target = target_of(context.application.specification(use_of(decisions)).spec)
        self.config, self.topology = self.target.config, self.target.topology
        self.admin = admin_of(self.config)
        self.preparer = Preparer(self.config, self.topology)
        self.repository = SavepointRepository(decisions["repository"], decisions["of"])
        self.manifest: Manifest = self.repository.read(decisions["savepoint"])
        self.staging = staging_directory(self.config, decisions["savepoint"])
        self.mode = RestoreMode(decisions["mode"])
        self.state = StateDirectory(self.config.state_dir)

    def lock(self) -> DirectoryLock:
        """The application's lock on this host, which a running driver has."""
        return DirectoryLock(self.state.application(self.config.application_id))

    def topics(self) -> dict[str, TopicDescription]:
        """All topics, the internal ones included."""
        return self.preparer.prepare_topics()

    def placing(self) -> Placing:
        """Where everything of the savepoint goes."""
        return Placing(
            self.manifest,
            self.topology,
            self.config.application_id,
            {name: topic.partitions for name, topic in self.topics().items()},
            {
                (topic, int(number)): offset
                for topic, numbers in self.context.plan.decisions["offsets"].items()
                for number, offset in numbers.items()
            },
        )

    def transactional_ids(self, placing: Placing) -> list[str]:
        """Those of the target's tasks."""
        if self.config.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2:
            return []
        return [task_transactional_id(self.config.application_id, task) for task in placing.tasks]

    def publisher(self) -> StatusPublisher:
        """Publishes the target's status; opening it fences its driver."""
        return StatusPublisher(
            self.config.bootstrap_servers,
            self.config.application_id,
            replication_factor=self.config.replication_factor,
            client_settings=self.config.client_settings("admin."),
        )


def fence(context: StepContext) -> Mapping[str, Any]:
    """Fences the driver and all tasks that there may have been."""
    work = Restoration(context)
    lock = work.lock()
    try:
        with work.publisher() as publisher:
            last = publisher.open()
        ids = {*(last.transactional_ids if last else ()), start_transactional_id(work.config.application_id)}
        if work.config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            fence_transactional_ids(
                work.config.bootstrap_servers, sorted(ids), settings=work.config.client_settings("producer.")
            )
    finally:
        lock.release()
    return {"fenced": sorted(ids)}


def prepare_topics(context: StepContext) -> Mapping[str, Any]:
    """Creates missing internal topics."""
    work = Restoration(context)
    recreated = work.admin.describe_topics(context.plan.decisions["recreated"])
    wanted = {spec.name: spec.partitions for spec in work.preparer.internal_topics()}
    work.admin.delete_topics([name for name, topic in recreated.items() if topic.partitions != wanted[name]])
    topics = work.topics()
    return {"partitions": {name: topic.partitions for name, topic in topics.items()}}


def fetch_files(context: StepContext) -> Mapping[str, Any]:
    """Brings the files here."""
    work = Restoration(context)
    return {"bytes": fetch(work.repository, work.manifest, work.staging, context.progress)}


def write_changelogs(context: StepContext) -> Mapping[str, Any]:
    """Writes every store to its changelog."""
    work = Restoration(context)
    placing = work.placing()
    places = placing.changelogs()
    writer = LogWriter(work.config, sorted({topic for topic, _ in places}))
    return {"ranges": _as_json(writer.write(_rows(work, placing), places))}


def _rows(work: Restoration, placing: Placing) -> Iterator[tuple[TopicPartition, RecordBatch]]:
    for task in work.manifest.point.tasks if work.manifest.point else ():
        stores = placing.saved_stores(task)
        if not stores:
            continue
        with opened(work.staging / task, stores, work.config) as state:
            for store in stores:
                if store.name in placing.own_changelogs:
                    work.context.progress(f"store {store.name} of task {task}")
                    for batch in saved_records(state, store):
                        yield from placing.split(store, task, batch)


def purge_changelogs(context: StepContext) -> Mapping[str, Any]:
    """Deletes what the changelogs had before."""
    work = Restoration(context)
    ranges = _ranges(context.results["changelogs"]["ranges"])
    writer = LogWriter(work.config, [])
    policies = context.plan.decisions["policies"]
    writer.delete_before({place: start for place, (start, _) in ranges.items()}, policies)
    return {}


def write_waiting(context: StepContext) -> Mapping[str, Any]:
    """Makes the repartition topics what they were between committed offsets and ends."""
    work = Restoration(context)
    placing = work.placing()
    places = placing.repartition_places()
    writer = LogWriter(work.config, sorted({topic for topic, _ in places}))

    def batches() -> Iterator[tuple[TopicPartition, RecordBatch]]:
        assert work.manifest.point is not None
        for waiting in work.manifest.point.waiting:
            for batch in read_records(work.staging / waiting.path):
                yield from placing.split_waiting(waiting, batch)

    ranges = writer.write(batches(), places)
    writer.delete_before({place: start for place, (start, _) in ranges.items()}, {})
    return {"ranges": _as_json(ranges)}


def install(context: StepContext) -> Mapping[str, Any]:
    """Puts the stores into the state directory, with the position that they stand for."""
    work = Restoration(context)
    placing = work.placing()
    application = work.config.application_id
    lock = work.lock()
    try:
        for task in placing.tasks:
            _wipe_outside(work, placing, task)
        for number, partition in work.state.tasks(application):
            if work.mode is RestoreMode.REWRITE or task_name(number, partition) not in placing.tasks:
                shutil.rmtree(work.state.task(application, number, partition))
        if work.mode is RestoreMode.INSTALL:
            for task in placing.tasks:
                _install_task(work, placing, task)
    finally:
        lock.release()
    return {}


def _directory(work: Restoration, task: str) -> Path:
    return work.state.task(work.config.application_id, *task_numbers(task))


def _wipe_outside(work: Restoration, placing: Placing, task: str) -> None:
    """Empties the stores of a task that are not in its database: their changelogs restore them."""
    directory = _directory(work, task)
    for store in placing.part_of(task).stores:
        if store.custom is not None:
            lock = DirectoryLock(directory)
            try:
                own = open_custom_store(store.name, store.custom, directory)
                own.wipe()
                own.close()
            finally:
                lock.release()


def _install_task(work: Restoration, placing: Placing, task: str) -> None:
    stores = placing.part_of(task).stores
    staged = work.staging / task
    if not (staged / DATABASE_DIRECTORY).exists():
        return  # the savepoint has none, or an attempt before this one has moved it
    signature = _signature(work, placing, task, run=0)
    with opened(staged, stores, work.config) as state:
        state.commit(
            TaskPosition(
                inputs=_offsets(work, placing)[task],
                changelogs=dict(signature.changelogs),
                stream_times=dict(signature.stream_times),
                written_at_ms=int(time.time() * 1000),
            )
        )
    directory = _directory(work, task)
    lock = DirectoryLock(directory)
    try:
        if (directory / DATABASE_DIRECTORY).exists():
            shutil.rmtree(directory / DATABASE_DIRECTORY)
        (staged / DATABASE_DIRECTORY).rename(directory / DATABASE_DIRECTORY)
    finally:
        lock.release()


def commit(context: StepContext) -> Mapping[str, Any]:
    """Commits all offsets in one transaction, and tells the status topic what the application is now."""
    work = Restoration(context)
    placing = work.placing()
    config, application = work.config, work.config.application_id
    offsets = _offsets(work, placing)
    topics = work.topics()
    with work.publisher() as publisher:
        last = publisher.open()
        commits = committed_offsets(work.admin, application, [place for task in offsets.values() for place in task])
        run = number_of_run(commits, epoch=publisher.epoch)
        signed = {
            place: (offset, text)
            for task, own in offsets.items()
            for place, text in _signature(work, placing, task, run=run).to_metadata(own).items()
            for offset in (own[place],)
        }
        with TaskProducer(
            config.bootstrap_servers,
            transactional_id=start_transactional_id(application),
            settings=config.client_settings("producer."),
        ) as producer:
            producer.init()
            producer.begin()
            producer.commit(signed, application)
        committed = by_topic({place: offset for own in offsets.values() for place, offset in own.items()})
        publisher.publish(
            ApplicationStatus(
                application_id=application,
                state=ApplicationState.NOT_RUNNING,
                reason=f"restored from savepoint {work.manifest.name} of {work.manifest.application}",
                driver=DriverIdentity.of_this_process(),
                driver_epoch=publisher.epoch,
                run_id=uuid4().hex,
                topology_fingerprint=work.topology.fingerprint,
                topology_summary=work.topology.summary(),
                transactional_ids=work.transactional_ids(placing),
                offsets=committed,
                topic_ids={name: topics[name].topic_id for name in committed},
                partitions={name: topics[name].partitions for name in committed},
                changelog_topic_ids={name: topics[name].topic_id for name, _ in placing.changelogs()},
                global_topic_ids=last.global_topic_ids if last else {},
                processing_guarantee=str(config.processing_guarantee),
            )
        )
    return {"offsets": committed, "run": run}


def check(context: StepContext) -> Mapping[str, Any]:
    """Looks whether everything is as promised.

    Raises:
        OperationError: something is not.
    """
    work = Restoration(context)
    placing = work.placing()
    offsets = _offsets(work, placing)
    places = [place for own in offsets.values() for place in own]
    problems = []
    commits = committed_offsets(work.admin, work.config.application_id, places)
    for own in offsets.values():
        for place, offset in own.items():
            if place not in commits or commits[place].offset != offset:
                problems.append(f"{place[0]}-{place[1]} is committed at {commits.get(place)}, not {offset}")
    ranges = _ranges(context.results["changelogs"]["ranges"])
    begins = begin_offsets(work.admin, list(ranges))
    ends = end_offsets(work.admin, list(ranges), End.HIGH_WATERMARK)
    problems += [
        f"{topic}-{number} has offsets {begins[topic, number]} to {ends[topic, number]}, not {start} to {end}"
        for (topic, number), (start, end) in ranges.items()
        if (begins[topic, number], ends[topic, number]) != (start, end)
    ]
    if work.mode is RestoreMode.INSTALL:
        problems += _wrong_positions(work, placing, offsets)
    if problems:
        raise OperationError(
            f"{work.config.application_id} is not what savepoint {work.manifest.name} says: {'; '.join(problems)}.",
            remedy="see who else works on its topics and its state directory; abandon the operation and restore again",
        )
    shutil.rmtree(work.staging, ignore_errors=True)
    return {"tasks": len(offsets), "stays": context.plan.decisions["stays"]}


def _wrong_positions(
    work: Restoration, placing: Placing, offsets: Mapping[str, Mapping[TopicPartition, int]]
) -> Iterator[str]:
    for task, own in offsets.items():
        stores = [store for store in placing.part_of(task).stores if is_in_database(store)]
        if stores:
            state = TaskState.open(_directory(work, task), stores, options=StateOptions.from_config(work.config))
            try:
                if dict(state.position.inputs) != dict(own):
                    yield f"the stores of task {task} stand for {dict(state.position.inputs)}, not {dict(own)}"
            finally:
                state.close()


def _offsets(work: Restoration, placing: Placing) -> dict[str, dict[TopicPartition, int]]:
    """Where each task goes on."""
    waiting = _ranges(work.context.results["waiting"]["ranges"])
    return placing.offsets({place: start for place, (start, _) in waiting.items()})


def _signature(work: Restoration, placing: Placing, task: str, *, run: int) -> Signature:
    ranges = _ranges(work.context.results["changelogs"]["ranges"])
    return placing.signature(task, {place: end for place, (_, end) in ranges.items()}, run=run)


def _as_json(ranges: Mapping[TopicPartition, LogRange]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = {}
    for (topic, number), bounds in ranges.items():
        found.setdefault(topic, {})[str(number)] = list(bounds)
    return found


def _ranges(found: Mapping[str, Mapping[str, list[int]]]) -> dict[TopicPartition, LogRange]:
    return {
        (topic, int(number)): (bounds[0], bounds[1])
        for topic, numbers in found.items()
        for number, bounds in numbers.items()
    }
