"""A second, scratch store: what a replay of the changelog gives, up to what the audited store stands for."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from millrace.config import StreamsConfig
from millrace.errors import OperationError
from millrace.kafka.columns import PartitionColumns
from millrace.operations.audit.database import prepare_scratch
from millrace.state import TaskState
from millrace.state.changelog_reader import BrokerChangelogReader
from millrace.state.position import TaskPosition
from millrace.state.replay import RestoreProgress
from millrace.state.restore import restore
from millrace.state.segments import Segments
from millrace.topology.stores import StoreSpec

_HASHES = 1 << 32


class OutOfTimeError(OperationError):
    """The budget of the audit is over."""


def is_sampled(key: bytes, sample: float) -> bool:
    """Whether a key is among the share ``sample`` of all keys, by its hash."""
    return sample >= 1 or zlib.crc32(key) < sample * _HASHES


class SampledReader(BrokerChangelogReader):
    """Reads the records of a share of the keys.

    Args:
        topic: the changelog topic.
        partition: the partition.
        config: the application's configuration.
        sample: the share.
    """

    def __init__(self, topic: str, partition: int, config: StreamsConfig, *, sample: float) -> None:
        super().__init__(
            topic,
            partition,
            bootstrap_servers=config.bootstrap_servers,
            settings=config.client_settings("consumer."),
        )
        self._sample = sample

    def read(self) -> Sequence[PartitionColumns]:
        """The next records of the sample, and positions."""
        return [self._sampled(columns) for columns in super().read()]

    def _sampled(self, columns: PartitionColumns) -> PartitionColumns:
        keys = columns.keys.to_pylist()
        wanted = [key is not None and is_sampled(key, self._sample) for key in keys]
        return columns.where(np.array(wanted, dtype=np.bool_))


def replay(
    directory: Path,
    store: StoreSpec,
    config: StreamsConfig,
    *,
    partition: int,
    position: TaskPosition,
    segments: Segments | None,
    sample: float,
    deadline: float,
) -> int:
    """Replay a changelog into the scratch database in ``directory``.

    Args:
        directory: must not exist.
        store: the store.
        config: the application's configuration.
        partition: the task's partition.
        position: what the audited database stands for.
        segments: of the audited store.
        sample: share of the keys.
        deadline: of ``time.monotonic()``.

    Returns:
        How many records were replayed.

    Raises:
        OutOfTimeError: the deadline passed.
        StateError: the changelog is shorter than what the store stands for, or gone.
    """
    topic = store.changelog_topic(config.application_id)
    assert topic is not None
    if store.source_topic is not None:
        end = position.inputs.get((topic, partition), 0)
    else:
        end = position.changelogs.get(store.name, 0)
    prepare_scratch(directory / "rocksdb", store, segments)
    if not end:
        return 0

    def on_progress(progress: RestoreProgress) -> None:
        if time.monotonic() > deadline and progress.remaining:
            raise OutOfTimeError(
                f"The time was over with {progress.remaining} offsets of {topic} to go.",
                remedy="give a larger --budget, or a smaller --sample",
            )

    state = TaskState.open(directory, [store])
    try:
        records = restore(
            state,
            store.name,
            topic,
            partition,
            from_offset=None,
            to_offset=end,
            bootstrap_servers=config.bootstrap_servers,
            on_progress=on_progress,
            reader=SampledReader(topic, partition, config, sample=sample),
        ).records
        # Makes durable what was loaded; the scratch store stands for nothing else.
        state.commit(state.position)
        return records
    finally:
        state.close()
