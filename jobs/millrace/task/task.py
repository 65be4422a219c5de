"""One task: a partition of a sub-topology, its stores, its producer, and the protocol that keeps them in step.

The order of a batch, on which exactly once depends:

1. the task asks whether its driver is still the newest (:mod:`millrace.task.newest_run`), since one of a driver that
   was replaced would take its successor's id back. The producer takes the transactional id over, which ends whatever an
   older attempt left open; the task asks once more; only then are the committed offsets read. A task that is open from
   the batch before skips all of it: a takeover shows at its commit.
2. input up to the committed offsets was processed by an earlier attempt and is skipped.
3. the stores are brought to the committed offsets by replaying their changelogs to the ends recorded with them; the
   global stores, before each batch, to the ends that the driver sets.
4. the batch is processed into overlays; the stores are not touched.
5. one transaction:

   a. outputs, changelog records and dead-letter records are delivered. Where the broker refuses one for good, the
      transaction is aborted, and the batch is processed again without it.
   b. the topics are compared with those of the start: they may have been deleted and created again. What was read of
      the stores must have been whole.
   c. the signature takes the ends of the changelogs, which are known now, and the stream times.
   d. the new offsets with the signature are sent, and the transaction commits.

6. the overlays are written to the database together with the new position, in one write.

A crash before 5 ends leaves nothing behind; a crash after it is repaired by 2 and 3.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import numpy as np
import structlog

from millrace.errors import (
    BrokerUnavailableError,
    ConfigurationError,
    DriverFencedError,
    MillraceError,
    OffsetOutOfRangeError,
    OffsetsMovedError,
    StateCorruptedError,
    StateDirectoryLockedError,
    StateError,
    StateWriteError,
    TaskMigratedError,
)
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.refusals import KnownRefusals, RecordsRefusedError
from millrace.metrics import TransactionOutcome
from millrace.state import StateOptions, TaskPosition, TaskState
from millrace.task.batch import TaskBatch
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.task.dead_letters import at_writable_times
from millrace.task.decided_input import decided_input
from millrace.task.engine import Engine
from millrace.task.global_copy import GlobalCopies, GlobalCopy, UnreportedCounts
from millrace.task.input import InputBatch, readable
from millrace.task.input_topics import check_input_topics
from millrace.task.newest_run import check_newest_run, explain_by_newer_run
from millrace.task.processor import HeldBack
from millrace.task.producer_collector import ProducerCollector
from millrace.task.recovery import ProgressListener, restore_to
from millrace.task.signature import MOVED_OFFSETS_REMEDY, Signature
from millrace.task.spec import TaskSpec
from millrace.task.topics_written import TopicsWritten
from millrace.topology.topic_partition import TopicPartition

ISOLATED_ROWS = 1_000
"""Most rows of a batch whose output is sent record by record, to learn which ones the broker refuses."""

MOST_ATTEMPTS = 1_000
"""Most attempts at a batch. Each finds a few more of the refused records, of which those rows have no more."""

PRODUCER_TIMEOUT_S = 15.0
"""Longest time of one call of the producer: the sooner one without an answer is discarded, the sooner another
continues."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """The result of a batch in a task.

    Args:
        task: the task's name.
        positions: committed offset of each input partition after the batch.
        undecided: rows that were left for a later batch, since older records of another input may still come.
        transactions: transactions that were committed, by this attempt or by an earlier one that could not report them.
        counts: ``read``, ``written.<topic>``, ``dropped.<reason>``, ``silently_dropped.<reason>``, ``dead_letters``;
            those that are not 0.
        durations: seconds by phase: open, restore, read, process, commit, store.
        lateness: how far behind stream time records were, milliseconds.
        latencies: from each record's timestamp to the commit, seconds; one number per record.
        store_sizes: entries and bytes by store.
        stream_times: stream time of each windowed operator, milliseconds, by store.
        held_back: what is held back until stream time has advanced, by store.
        merged_bytes: keys and values of the updates that cached stores have merged for the commit; measured where
            ``statestore.cache.max.bytes`` bounds them.
        restored: changelog records that were replayed before the batch.
        rebuilds: how often stores were emptied before the batch because their files were damaged.
        next_punctuation_ms: when a punctuation is due by the wall clock, milliseconds since the epoch; ``None`` where
            none is scheduled.
        answer: what the action that came with the batch returned.
    """

    task: str
    positions: Mapping[TopicPartition, int]
    undecided: int = 0
    transactions: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)
    lateness: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    latencies: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    store_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stream_times: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, HeldBack] = field(default_factory=dict)
    merged_bytes: int = 0
    restored: int = 0
    rebuilds: int = 0
    next_punctuation_ms: int | None = None
    answer: object = None


class Task:
    """A task that stays open between batches. After any exception it is unusable: close it and open another one.

    Args:
        spec: what to run.
        on_restore: called while changelogs are read.
        on_lost_transaction: called when a transaction of the task was aborted or fenced, which no outcome reports.
        copies: this process's copies of the global stores; ``None`` for a task that is the only one.
    """

    def __init__(
        self,
        spec: TaskSpec,
        on_restore: ProgressListener = lambda _: None,
        *,
        on_lost_transaction: Callable[[TransactionOutcome], None] = lambda _: None,
        copies: GlobalCopies | None = None,
    ) -> None:
        self.spec = spec
        self._on_restore = on_restore
        self._on_lost_transaction = on_lost_transaction
        self._copies = copies or GlobalCopies()
        self._global: dict[str, GlobalCopy] = {}
        self._admin = KafkaAdmin(spec.config.bootstrap_servers, settings=spec.config.client_settings("admin."))
        self._log = _log.bind(application=spec.config.application_id, task=spec.name)
        self._topics = TopicsWritten(spec, self._admin)
        self._sent_topics: set[str] = set()
        self._known_refusals = KnownRefusals()
        self._isolates = False
        self._producer: TaskProducer | None = None
        self._state: TaskState | None = None
        self._engine: Engine | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._unreported: Mapping[str, int] = {}
        self._changelog_ends: dict[str, int] = {}
        self._reset = 0
        self._restored = 0
        self._rebuilds = 0
        self._transactions = 0

    @property
    def state(self) -> TaskState:
        """The stores of the task.

        Raises:
            StateError: the task has not run a batch yet, so that they are not open.
        """
        if self._state is None:
            raise StateError(f"The stores of task {self.spec.name} are not open.", remedy="run a batch without rows")
        return self._state

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The committed offset of each input partition, as the task knows it."""
        return dict(self._committed)

    @property
    def changelog_ends(self) -> Mapping[str, int]:
        """The end offset of each store's changelog that the last commit recorded."""
        return dict(self._changelog_ends)

    def run_batch(self, batch: TaskBatch) -> BatchOutcome:
        """Processes the uncommitted rows of a batch, and commits them.

        Stores whose files turn out to be damaged are emptied and restored from their changelogs, and the batch is
        processed from its beginning. So it is where the broker refuses a record for good: the production exception
        handler is then asked about that record, and nothing of it is sent.

        Args:
            batch: rows and ranges of the task's input partitions.

        Raises:
            OffsetsMovedError: the committed offsets are not the application's own.
            DriverFencedError: a newer run of the application has committed.
            StateError: stores, changelogs and committed offsets do not fit.
            TaskMigratedError: a newer attempt took over.
            MillraceError: a record could not be processed, and its handler does not continue; nothing was committed.
        """
        try:
            return self._run_or_rebuild(batch)
        except (StateDirectoryLockedError, StateWriteError):
            raise
        except (OffsetOutOfRangeError, OffsetsMovedError, StateError) as error:
            # What looks like damage may be what another attempt has done: its remedies would discard good state.
            explain_by_newer_run(self._admin, self.spec, self._committed, error)
            raise

    def explain(self, error: MillraceError) -> NoReturn:
        """Raises the reason why the task's input cannot be read: a newer attempt, a deleted topic, or the error itself.

        Args:
            error: what the reader says.

        Raises:
            DriverFencedError: a newer run of the application has taken over.
            TaskMigratedError: another attempt has committed meanwhile.
            StateError: an input topic was deleted, perhaps created again.
            MillraceError: none of these: ``error`` itself.
        """
        explain_by_newer_run(self._admin, self.spec, self._committed, error)
        check_input_topics(self._admin, self.spec.part.topic_ids, self.spec.config.application_id)
        raise error

    def _run_or_rebuild(self, batch: TaskBatch) -> BatchOutcome:
        was_damaged, attempts = False, 0
        while True:
            attempts += 1
            try:
                outcome = self._run_batch(batch)
            except StateCorruptedError as error:
                if was_damaged:
                    raise
                was_damaged = True
                self._log.warning("damaged state is built again", reason=error.message)
                self.close()
                self._rebuilds += 1
            except (RecordsRefusedError, BrokerUnavailableError) as error:
                self.close()
                self._learn_from(error, is_last=attempts >= MOST_ATTEMPTS)
            else:
                self._discard_refusals()
                return outcome

    def _run_batch(self, batch: TaskBatch) -> BatchOutcome:
        clock = _Clock()
        if self._engine is None:
            signature = self._open(clock)
            if any(
                self._committed[topic_partition] > offsets.start for topic_partition, offsets in batch.ranges.items()
            ):
                # An earlier attempt at this batch committed and died before it could say what it had counted.
                self._unreported = signature.counts
        assert self._engine is not None
        unreported = self._catch_up(batch.global_ends, clock)
        nothing_new = all(
            self._committed[topic_partition] >= offsets.end for topic_partition, offsets in batch.ranges.items()
        )
        if nothing_new and not self._engine.is_punctuation_due:
            if batch.recommit or unreported:
                self._commit_again(clock, unreported)
            return self._already_committed(clock, unreported)
        decided = decided_input(
            batch, self.spec, self._committed, self._engine.sources.in_stream_order, most_rows=self._most_rows()
        )
        clock.lap("read")
        crash_here(CrashPoint.BEFORE_PROCESSING)
        collector = self._collector()
        try:
            self._engine.process(decided.rows, collector, wall_clock=True)
            self._report(unreported, collector)
            clock.lap("process")
            merged_bytes = self._merged_bytes()
            positions = {**self._committed, **decided.positions}
            counts = self._counts(decided.rows, collector, unreported)
            self._commit(positions, counts, collector, clock)
        except BaseException as error:
            self._return_unreported(unreported)
            damaged = self._damage()
            self.close()
            if damaged is not None and isinstance(error, Exception) and not isinstance(error, StateCorruptedError):
                # User code met it and raised something else.
                raise damaged from error
            raise
        committed_at = time.time()
        assert self._state is not None
        return BatchOutcome(
            task=self.spec.name,
            positions=positions,
            undecided=decided.undecided,
            transactions=self._take_transactions(),
            counts=counts,
            durations=clock.laps,
            lateness=np.concatenate(self._engine.failures.lateness or [np.empty(0, dtype=np.int64)]),
            latencies=committed_at - decided.rows.timestamp / 1000,
            store_sizes=self._state.sizes(),
            stream_times=dict(self._engine.context.stream_times),
            held_back={store: measure() for store, measure in self._engine.context.held_back.items()},
            merged_bytes=merged_bytes,
            restored=self._take_restored(),
            rebuilds=self._take_rebuilds(),
            next_punctuation_ms=self._engine.next_wall_clock_ms,
        )

    def _most_rows(self) -> int | None:
        """Returns the limit of a batch's rows while records are sent one by one; ``None`` where there is no limit.

        The rows of a frame function have to stay together.
        """
        if not self._isolates or any(source.frame_functions for source in self.spec.sub_topology.sources):
            return None
        return ISOLATED_ROWS

    def _merged_bytes(self) -> int:
        assert self._state is not None
        return self._state.merged_bytes() if self.spec.config.statestore_cache_max_bytes else 0

    def _damage(self) -> StateCorruptedError | None:
        """Returns the error for damaged state, if the task has found any."""
        state_is_damaged = self._state is not None and self._state.is_damaged
        if not state_is_damaged and not any(copy.is_damaged for copy in self._global.values()):
            return None
        return StateCorruptedError(
            f"Task {self.spec.name} met damaged state while it processed a batch.",
            remedy="none needed: the stores are restored from their changelogs; check the disk, though",
        )

    def close(self) -> None:
        """Aborts an open transaction and closes the stores; those with damaged files are emptied. Idempotent."""
        producer, state, engine = self._producer, self._state, self._engine
        self._producer = self._state = self._engine = None
        try:
            if engine is not None:
                engine.close()
            if producer is not None:
                producer.close()
        finally:
            if state is not None:
                try:
                    if state.is_damaged:
                        state.wipe()
                finally:
                    state.close()

    def _learn_from(self, error: RecordsRefusedError | BrokerUnavailableError, *, is_last: bool) -> None:
        """Finds out which records the broker refused, so that the next attempt at the batch does not send them.

        Its topic's settings may be others than at the start; otherwise each record is sent by itself, which shows it.

        Raises:
            MillraceError: nothing was found that another attempt would leave out, or there were too many attempts.
        """
        sent, self._sent_topics = self._sent_topics, set()
        refused = error if isinstance(error, RecordsRefusedError) else None
        try:
            found = self._topics.refresh(sent)
        except BrokerUnavailableError:
            raise error from None
        if refused is not None and not found:
            found = self._known_refusals.add(refused.records)
            if not found and not refused.of_topic and not self._isolates:
                self._isolates = found = True
        if not found or is_last:
            raise refused.cause if refused is not None and refused.cause is not None else error
        self._log.warning("the broker refuses records; the batch is processed again", reason=error.message)

    def _discard_refusals(self) -> None:
        self._known_refusals = KnownRefusals()
        self._sent_topics.clear()
        if self._isolates:
            self._isolates = False
            self.close()

    def _take_restored(self) -> int:
        restored, self._restored = self._restored, 0
        return restored

    def _take_rebuilds(self) -> int:
        rebuilds, self._rebuilds = self._rebuilds, 0
        return rebuilds

    def _take_transactions(self) -> int:
        transactions, self._transactions = self._transactions, 0
        return transactions

    def _transaction_ended(self, outcome: TransactionOutcome) -> None:
        if outcome is TransactionOutcome.COMMITTED:
            self._transactions += 1
        else:
            self._on_lost_transaction(outcome)

    def _open(self, clock: _Clock) -> Signature:
        spec = self.spec
        try:
            self._state = TaskState.open(
                spec.state_directory, spec.sub_topology.stores, options=StateOptions.from_config(spec.config)
            )
            self._rebuilds += self._state.was_damaged
            self._producer = self._new_producer()
            signature = self._read_committed()
            clock.lap("open")
            crash_here(CrashPoint.TASK_OPENED)
            self._restored = restore_to(self._state, spec, self._committed, signature, self._on_restore)
            clock.lap("restore")
            self._changelog_ends = dict(signature.changelogs)
            self._reset = signature.reset
            stream_times = self._state.position.stream_times if signature.taken_over else signature.stream_times
            self._global = {each.name: self._copies.copy(each, spec.config) for each in spec.part.global_stores}
            self._engine = Engine(
                spec.sub_topology,
                spec.config,
                self._state,
                task=spec.name,
                partition=spec.partition,
                stream_times=stream_times,
                partition_times=signature.partition_times,
                open_global_store=lambda name: self._global[name].store,
            )
        except BaseException:
            self.close()
            raise
        self._log.info(
            "task opened",
            committed=readable(self._committed),
            restored=self._restored,
            seconds=round(clock.laps["open"] + clock.laps["restore"], 3),
        )
        return signature

    def _new_producer(self) -> TaskProducer:
        spec = self.spec
        check_newest_run(spec)
        producer = TaskProducer(
            spec.config.bootstrap_servers,
            transactional_id=spec.transactional_id,
            transaction_timeout_ms=spec.config.transaction_timeout_ms,
            settings=spec.config.client_settings("producer."),
            topic_limits=self._topics.limits,
            isolates=self._isolates,
            timeout_s=PRODUCER_TIMEOUT_S,
            on_transaction_end=self._transaction_ended,
        )
        try:
            producer.init()
            # Who took over between the question and the call has fenced nothing of this attempt.
            check_newest_run(spec)
        except BaseException:
            producer.close()
            raise
        return producer

    def _collector(self) -> ProducerCollector:
        return ProducerCollector(
            self._open_producer(),
            self._topics,
            self._learn,
            known_refusals=self._known_refusals,
            sent_topics=self._sent_topics,
        )

    def _learn(self, topic: str, *, dead_letters: bool = False) -> TaskProducer:
        """Looks up a topic that a record or a dead-letter record names; returns the producer that can write to it.

        A producer's batches fit the topics that were known when it was made. Nothing of the batch is sent yet: all
        topics are asked for before that.
        """
        self._topics.learn(topic, dead_letters=dead_letters)
        producer = self._open_producer()
        limits = self._topics.limits[topic]
        if producer.fits(limits.max_message_bytes):
            producer.add_topic(topic, limits)
            return producer
        if producer.in_transaction:
            # A dead-letter record for a record that turned out too large when it was sent. A new producer would lose
            # what was sent.
            raise ConfigurationError(
                f"Task {self.spec.name} has a dead-letter record for topic {topic}, whose max.message.bytes "
                f"({limits.max_message_bytes}) its "
                "producer does not fit, and has sent records already.",
                remedy="give the topic the max.message.bytes of the output topics, or name it in "
                "errors.dead.letter.queue.topic.name, so that it is known from the start",
            )
        producer.close()
        self._producer = self._new_producer()
        committed = self._committed
        self._read_committed()
        if self._committed != committed:
            # Taking the id over once more has fenced what had taken it over from this task.
            raise TaskMigratedError(
                f"Another attempt at task {self.spec.name} has committed meanwhile.",
                remedy="none needed: the batch is processed again from what it committed",
            )
        return self._producer

    def _read_committed(self) -> Signature:
        config = self.spec.config
        found = committed_offsets(self._admin, config.application_id, self.spec.inputs)
        missing = [topic_partition for topic_partition in self.spec.inputs if found.get(topic_partition) is None]
        signature = Signature.of(
            {
                topic_partition: found[topic_partition]
                for topic_partition in self.spec.inputs
                if topic_partition in found
            }
        )
        if missing or signature is None:
            raise OffsetsMovedError(
                f"Task {self.spec.name}: the committed offsets of group {config.application_id} at "
                f"{', '.join(f'{topic}-{partition}' for topic, partition in missing or self.spec.inputs)} are "
                f"{'missing' if missing else 'not written by this application'}.",
                remedy=MOVED_OFFSETS_REMEDY,
            )
        if signature.run > self.spec.part.run_id:
            # Its tasks may have other numbers than ours, so that no transactional id keeps us apart.
            raise DriverFencedError(
                f"Task {self.spec.name} belongs to run {self.spec.part.run_id} of {config.application_id}, and run "
                f"{signature.run} has its offsets.",
                remedy="nothing, if the newer run is meant; otherwise stop it and start again",
            )
        self._committed = {
            topic_partition: commit.offset
            for topic_partition in self.spec.inputs
            if (commit := found[topic_partition]) is not None
        }
        return signature

    def _catch_up(self, ends: Mapping[TopicPartition, int], clock: _Clock) -> UnreportedCounts:
        """Brings the global stores to the end offsets; returns what their copies have to report."""
        unreported = UnreportedCounts()
        try:
            for copy in self._global.values():
                copy.catch_up(ends, self._on_restore)
                unreported.add(copy.take_unreported())
        except BaseException:
            self._return_unreported(unreported)
            self.close()
            raise
        if self._global:
            clock.lap("global")
        return unreported

    def _return_unreported(self, unreported: UnreportedCounts) -> None:
        for copy in self._global.values():
            if copy.number == 0:
                copy.return_unreported(unreported)
                return

    @staticmethod
    def _report(unreported: UnreportedCounts, collector: ProducerCollector) -> None:
        for records in unreported.records:
            collector.send(at_writable_times(records, collector))

    def _open_producer(self) -> TaskProducer:
        assert self._producer is not None
        return self._producer

    def _commit(
        self,
        positions: Mapping[TopicPartition, int],
        counts: Mapping[str, int],
        collector: ProducerCollector,
        clock: _Clock,
    ) -> None:
        """Commits a batch: steps 5 and 6 of the module's docstring, under the same numbers."""
        producer, state, engine = self._open_producer(), self._state, self._engine
        assert state is not None
        assert engine is not None
        # 5a
        collector.begin()
        crash_here(CrashPoint.INSIDE_TRANSACTION)
        producer.flush()
        crash_here(CrashPoint.RECORDS_SENT)
        # 5b
        check_input_topics(
            self._admin,
            self.spec.part.topic_ids,
            self.spec.config.application_id,
            changelog_ids=self.spec.part.changelog_ids,
            global_topic_ids=self.spec.part.global_topic_ids,
        )
        damaged = self._damage()
        if damaged is not None:
            # User code may have met it and gone on.
            raise damaged
        state.check_reads()
        # 5c
        for store, topic in collector.changelog_topics.items():
            end = producer.sent_end_offset(topic, self.spec.partition)
            if end is not None:
                self._changelog_ends[store] = end
        signature = Signature(
            run=self.spec.part.run_id,
            partition_times=engine.partition_times,
            changelogs=self._changelog_ends,
            stream_times=engine.context.stream_times,
            counts=counts,
            reset=self._reset,
        )
        metadata = signature.to_metadata(positions)
        # 5d
        producer.commit(
            {topic_partition: (offset, metadata[topic_partition]) for topic_partition, offset in positions.items()},
            self.spec.config.application_id,
            on_offsets_sent=partial(crash_here, CrashPoint.OFFSETS_SENT),
        )
        self._committed = dict(positions)
        clock.lap("commit")
        crash_here(CrashPoint.AFTER_COMMIT)
        # 6
        state.commit(
            TaskPosition(
                inputs=dict(positions),
                changelogs=self._changelog_ends,
                stream_times=dict(engine.context.stream_times),
                written_at_ms=int(time.time() * 1000),
                run_id=self.spec.part.run_id,
            )
        )
        clock.lap("store")
        crash_here(CrashPoint.AFTER_STORE_WRITE)

    def _counts(
        self, decided: InputBatch, collector: ProducerCollector, unreported: UnreportedCounts
    ) -> dict[str, int]:
        assert self._engine is not None
        failures = self._engine.failures
        counts = {"read": len(decided), "dead_letters": failures.dead_letters + unreported.dead_letters}
        counts.update({f"written.{topic}": count for topic, count in collector.written.items()})
        dropped = failures.dropped + unreported.dropped
        counts.update({f"dropped.{reason}": count for reason, count in dropped.items()})
        counts.update({f"silently_dropped.{why}": count for why, count in failures.silently_dropped.items()})
        return {name: count for name, count in counts.items() if count}

    def _commit_again(self, clock: _Clock, unreported: UnreportedCounts) -> None:
        """Commits the committed offsets again, with the state's signature as it is."""
        collector = self._collector()
        try:
            self._report(unreported, collector)
            self._commit(self._committed, {}, collector, clock)
        except BaseException:
            self._return_unreported(unreported)
            self.close()
            raise

    def _already_committed(self, clock: _Clock, unreported: UnreportedCounts) -> BatchOutcome:
        committed_counts, self._unreported = self._unreported, {}
        counts = Counter(committed_counts)
        counts.update({f"dropped.{reason}": count for reason, count in unreported.dropped.items()})
        counts.update({"dead_letters": unreported.dead_letters} if unreported.dead_letters else {})
        assert self._engine is not None
        return BatchOutcome(
            task=self.spec.name,
            positions=dict(self._committed),
            transactions=self._take_transactions()
            + int(bool(committed_counts) and self.spec.transactional_id is not None),
            counts=dict(counts),
            durations=clock.laps,
            restored=self._take_restored(),
            rebuilds=self._take_rebuilds(),
            next_punctuation_ms=self._engine.next_wall_clock_ms,
        )


TaskAction = Callable[[Task], object]
"""What a driver has a task execute between two batches. It is sent to a worker, so it must be picklable."""


class _Clock:
    """A clock of seconds by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends a phase and adds its seconds."""
        now = time.perf_counter()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now
