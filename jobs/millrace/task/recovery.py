"""The restoration of a task's stores to its committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from millrace.config import ProcessingGuarantee
from millrace.errors import StateCorruptedError, StateError, StateWriteError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.state import StateDirectory, TaskPosition, TaskState
from millrace.state.replay import RestoreProgress
from millrace.state.restore import restore
from millrace.state.restore_rate import LEAST_RECORDS, MeasuredRate, keep_rate
from millrace.state.restore_slots import RestoreSlots
from millrace.task.signature import Signature
from millrace.task.spec import TaskSpec
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topic_partition import TopicPartition

_log = structlog.get_logger(__name__)


ProgressListener = Callable[[RestoreProgress], None]


def restore_to(
    state: TaskState,
    spec: TaskSpec,
    committed: Mapping[TopicPartition, int],
    signature: Signature,
    on_progress: ProgressListener,
) -> int:
    """Brings the stores to the committed offsets, by replaying changelogs where they are behind.

    Args:
        state: the task's stores.
        spec: the task.
        committed: committed offset of each input partition.
        signature: what was committed with them.
        on_progress: called while changelogs are read.

    Returns:
        How many changelog records were replayed.

    Raises:
        StateError: the stores are ahead of the committed offsets under exactly once, or a changelog does not have
            what is missing. A crash in between is harmless: the position moves only at the end.
    """
    stores = spec.sub_topology.stores
    if not stores:
        return 0
    if state.position.written_at_ms and state.position.run_id < signature.reset:
        _log.info("stores are from before a reset", task=spec.name, written_by=state.position.run_id)
        state.wipe()
    position = state.position
    stored = {
        topic_partition: position.inputs[topic_partition]
        for topic_partition in committed
        if topic_partition in position.inputs
    }
    ahead = {
        topic_partition: offset for topic_partition, offset in stored.items() if offset > committed[topic_partition]
    }
    if ahead and _is_exactly_once(spec):
        raise StateError(
            f"Task {spec.name}: the stores in {spec.state_directory} contain input up to "
            + ", ".join(f"{topic}-{partition} offset {offset}" for (topic, partition), offset in ahead.items())
            + f", but the group has committed { ({f'{t}-{p}': committed[(t, p)] for t, p in ahead}) }.",
            remedy="if the offsets were moved back on purpose, reset the application; otherwise delete the task's "
            "state directory, so that the stores are restored from their changelogs",
        )
    current = stored == dict(committed)
    unlogged = any(not store.has_changelog for store in stores)
    # A standby's copy has nothing in stores without a changelog, as after a wipe.
    if not current and ((unlogged and not position.standby) or _tombstones_may_be_missing(spec, position)):
        state.wipe()
    newest: dict[str, int] = {}
    replay = partial(
        _replay, state, spec, signature=signature, committed=committed, on_progress=on_progress, newest=newest
    )
    try:
        restored = replay(position=state.position)
    except (StateCorruptedError, StateWriteError):
        raise
    except StateError as error:
        if not state.position.changelogs:
            raise
        _log.warning("delta restore failed, restoring whole", task=spec.name, reason=error.message)
        state.wipe()
        restored = replay(position=state.position)
    if restored or not current:
        before = state.position.stream_times
        state.commit(
            TaskPosition(
                inputs=dict(committed),
                changelogs=dict(signature.changelogs),
                stream_times=_from_changelogs(spec, before, newest)
                if signature.taken_over
                else dict(signature.stream_times),
                written_at_ms=int(time.time() * 1000),
                run_id=signature.run,
            )
        )
    return restored


def _tombstones_may_be_missing(spec: TaskSpec, position: TaskPosition) -> bool:
    """Returns whether tombstones that the stores have not seen may have been compacted away."""
    if not spec.part.tombstone_retention_ms or not position.written_at_ms:
        return False
    age_ms = time.time() * 1000 - position.written_at_ms
    if age_ms <= min(spec.part.tombstone_retention_ms.values()) / 2:
        return False
    _log.info("stores are too old for a delta restore", task=spec.name, age_hours=round(age_ms / 3_600_000, 1))
    return True


def _replay(
    state: TaskState,
    spec: TaskSpec,
    *,
    position: TaskPosition,
    signature: Signature,
    committed: Mapping[TopicPartition, int],
    on_progress: ProgressListener,
    newest: dict[str, int],
) -> int:
    """Replays what each logged store lacks, several stores at once, and records the newest timestamps.

    Returns:
        The number of records.
    """
    missing = [
        store_range
        for store in spec.sub_topology.stores
        if (store_range := _missing_range(spec, store, position, signature, committed))
    ]
    if not missing:
        return 0
    for store_range in missing:
        on_progress(store_range.nothing_done(spec.partition))
    config = spec.config
    slots = RestoreSlots(StateDirectory(config.state_dir).restore_slots(config.application_id), config.restore_threads)

    def restored(store_range: _MissingRange) -> RestoreProgress:
        with slots.slot():
            began = time.monotonic()
            progress = restore(
                state,
                store_range.store,
                store_range.topic,
                spec.partition,
                from_offset=store_range.begin,
                to_offset=store_range.end,
                bootstrap_servers=config.bootstrap_servers,
                settings=config.client_settings("consumer."),
                on_progress=on_progress,
            )
            _keep_rate(spec, progress, time.monotonic() - began)
            return progress

    with ThreadPoolExecutor(min(len(missing), config.restore_threads), "restore") as threads:
        done = list(threads.map(restored, missing))
    newest.update({each.store: each.newest_timestamp for each in done})
    return sum(each.records for each in done)


def _keep_rate(spec: TaskSpec, progress: RestoreProgress, seconds: float) -> None:
    """Saves the rate of a large restoration, for estimates of later ones on this host."""
    if progress.records < LEAST_RECORDS:
        return
    reading_s = progress.records / progress.records_per_s - progress.start_s
    rate = MeasuredRate(records_per_s=progress.records / reading_s, start_s=max(seconds - reading_s, 0.0))
    keep_rate(StateDirectory(spec.config.state_dir).application(spec.config.application_id), rate)


@dataclass(frozen=True)
class _MissingRange:
    """The range of a changelog that a store lacks: from an offset (``None``: the beginning) up to another."""

    store: str
    topic: str
    begin: int | None
    end: int

    def nothing_done(self, partition: int) -> RestoreProgress:
        """Returns the progress before the first record."""
        begin = self.begin or 0
        return RestoreProgress(
            store=self.store,
            topic=self.topic,
            partition=partition,
            records=0,
            position=begin,
            remaining=self.end - begin,
            records_per_s=0.0,
        )


def _missing_range(
    spec: TaskSpec,
    store: StoreSpec,
    position: TaskPosition,
    signature: Signature,
    committed: Mapping[TopicPartition, int],
) -> _MissingRange | None:
    topic = store.changelog_topic(spec.config.application_id)
    if topic is None:
        return None
    begin = position.changelogs.get(store.name)
    end = signature.changelogs.get(store.name, 0)
    if store.source_topic is not None:
        topic_partition = (topic, spec.partition)
        end = committed[topic_partition]
        begin = begin if position.standby else position.inputs.get(topic_partition)
    if end in (begin, 0):
        return None
    if begin is not None and begin > end and not _is_exactly_once(spec):
        # At least once, a store may be ahead of the commit: its input comes again.
        return None
    return _MissingRange(store.name, topic, begin, end)


def _from_changelogs(spec: TaskSpec, before: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Returns the stream times that no commit has: of each windowed store the newest timestamp in its changelog."""
    windowed = {StoreKind.WINDOW, StoreKind.SESSION}
    names = [store.name for store in spec.sub_topology.stores if store.kind in windowed]
    times = {name: max(before.get(name, UNKNOWN_TIME), newest.get(name, UNKNOWN_TIME)) for name in names}
    return {name: time for name, time in times.items() if time != UNKNOWN_TIME}


def _is_exactly_once(spec: TaskSpec) -> bool:
    return spec.config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
