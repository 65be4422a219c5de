"""The restoration of a store from its changelog, up to exactly the offset that a commit recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from millrace.errors import BrokerUnavailableError, OffsetOutOfRangeError, StateError
from millrace.state.changelog_reader import BrokerChangelogReader, ChangelogReader, lost_offset
from millrace.state.replay import Replay, RestoreProgress
from millrace.state.task_state import TaskState


def restore(
    state: TaskState,
    store: str,
    topic: str,
    partition: int,
    *,
    from_offset: int | None,
    to_offset: int,
    bootstrap_servers: str,
    settings: Mapping[str, str] | None = None,
    on_progress: Callable[[RestoreProgress], None] | None = None,
    stall_timeout_s: float = 90.0,
    reader: ChangelogReader | None = None,
) -> RestoreProgress:
    """Replays ``[from_offset, to_offset)`` of a changelog into a store.

    The store's position in the database moves only with the caller's next commit, so a crash on the way starts over
    from the old position, which changes nothing that was already applied.

    Args:
        state: the task's state, with nothing uncommitted in the store.
        store: name of the store.
        topic: the changelog topic (or the source topic that serves as one).
        partition: the task's partition.
        from_offset: first offset that the store does not contain; ``None`` for a whole restoration of an empty store,
            from wherever the log begins.
        to_offset: end offset that the commit recorded. Markers count, so the last record may lie well before it.
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user, without prefix.
        on_progress: called after each batch, and once at the end.
        stall_timeout_s: longest time without progress, for example while another producer's transaction is open.
        reader: where records come from instead of the broker.

    Returns:
        the progress at the end: ``position`` is at least ``to_offset``, ``remaining`` is 0.

    Raises:
        StateError: the log is shorter than ``to_offset`` or begins after ``from_offset`` (also when that happens
            while it is read: wipe the store and restore it whole), the store is ahead of ``to_offset``, the topic is
            missing, or nothing came for ``stall_timeout_s``.
        BrokerUnavailableError: no broker answers, for as long.
    """
    where = f"changelog {topic}, partition {partition}, of store {store}"
    source = reader or BrokerChangelogReader(topic, partition, bootstrap_servers=bootstrap_servers, settings=settings)
    with _closing(source):
        log_start, log_end = source.log_range()
        first = log_start if from_offset is None else from_offset
        if log_end < to_offset:
            raise StateError(
                f"The {where} ends at offset {log_end}, but offset {to_offset} was committed: records are lost.",
                remedy="find out who truncated or recreated the topic; restore a savepoint or reset the application",
            )
        if first < log_start:
            raise StateError(
                f"The {where} begins at offset {log_start}, the store is at offset {first}: records are gone.",
                remedy="wipe the store and restore it whole",
            )
        if first > to_offset and from_offset is not None:
            raise StateError(
                f"The store {store} is at offset {first} of {topic}, partition {partition}, ahead of the committed "
                f"offset {to_offset}.",
                remedy="wipe the store and restore it whole",
            )
        if from_offset is None and first < to_offset:
            state.begin_load(store)
        replay = Replay(state, store, topic, partition, position=first, end=to_offset, on_progress=on_progress)
        if first < to_offset:
            source.start(first)
        deadline = time.monotonic() + stall_timeout_s
        while replay.position < to_offset:
            before = replay.position
            try:
                news = source.read()
            except OffsetOutOfRangeError as error:
                raise lost_offset(error, where) from error
            for columns in news:
                replay.apply(columns)
            if replay.position > before:
                deadline = time.monotonic() + stall_timeout_s
                continue
            if time.monotonic() <= deadline:
                continue
            if source.trouble:
                raise BrokerUnavailableError(
                    f"No broker answered at {bootstrap_servers} while the {where} was read: {source.trouble}.",
                    remedy="start the broker, or correct bootstrap.servers",
                )
            raise StateError(
                f"The {where} gave nothing for {stall_timeout_s:g} s at offset {replay.position}; offset "
                f"{to_offset} was committed.",
                remedy="look for a transaction that hangs (kafka-transactions.sh find-hanging), or a broker "
                "that does not answer",
            )
        replay.settle()
        return replay.progress()


@contextmanager
def _closing(reader: ChangelogReader) -> Iterator[None]:
    try:
        yield
    finally:
        reader.close()
