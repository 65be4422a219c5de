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
from functools import partial
from typing import NoReturn

import numpy as np
import structlog

from millrace.errors import (
    BrokerUnavailableError,
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
from millrace.kafka.refusals import RecordsRefusedError
from millrace.metrics import TransactionOutcome
from millrace.state import StateOptions, TaskPosition, TaskState
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome, PhaseClock
from millrace.task.committed_input import read_committed
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.task.dead_letters import at_writable_times
from millrace.task.decided_input import decided_input
from millrace.task.engine import Engine
from millrace.task.global_copy import GlobalCopies, GlobalCopy, UnreportedCounts
from millrace.task.input import InputBatch, readable
from millrace.task.input_topics import check_input_topics
from millrace.task.newest_run import explain_by_newer_run
from millrace.task.producer_collector import ProducerCollector
from millrace.task.recovery import ProgressListener, restore_to
from millrace.task.signature import Signature
from millrace.task.spec import TaskSpec
from millrace.task.transactional_output import TransactionalOutput
from millrace.topology.topic_partition import TopicPartition

MOST_ATTEMPTS = 1_000
"""Most attempts at a batch. Each finds a few more of the refused records, of which those rows have no more."""

_log = structlog.get_logger(__name__)


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
        self._output = TransactionalOutput(
            spec, self._admin, check_unmoved=self._check_unmoved, on_transaction_end=self._transaction_ended
        )
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
                self._output.learn_refusals(error, is_last=attempts >= MOST_ATTEMPTS)
            else:
                if self._output.discard_refusals():
                    self.close()
                return outcome

    def _run_batch(self, batch: TaskBatch) -> BatchOutcome:
        clock = PhaseClock()
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
            batch, self.spec, self._committed, self._engine.sources.in_stream_order, most_rows=self._output.most_rows
        )
        clock.lap("read")
        crash_here(CrashPoint.BEFORE_PROCESSING)
        collector = self._output.collector()
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
        state, engine = self._state, self._engine
        self._state = self._engine = None
        try:
            if engine is not None:
                engine.close()
            self._output.close()
        finally:
            if state is not None:
                try:
                    if state.is_damaged:
                        state.wipe()
                finally:
                    state.close()

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

    def _open(self, clock: PhaseClock) -> Signature:
        spec = self.spec
        try:
            self._state = TaskState.open(
                spec.state_directory, spec.sub_topology.stores, options=StateOptions.from_config(spec.config)
            )
            self._rebuilds += self._state.was_damaged
            self._output.open()
            self._committed, signature = read_committed(self._admin, spec)
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

    def _check_unmoved(self) -> None:
        """Checks that taking the id over once more has not fenced what had taken it over from this task."""
        committed, _ = read_committed(self._admin, self.spec)
        if committed != self._committed:
            raise TaskMigratedError(
                f"Another attempt at task {self.spec.name} has committed meanwhile.",
                remedy="none needed: the batch is processed again from what it committed",
            )

    def _catch_up(self, ends: Mapping[TopicPartition, int], clock: PhaseClock) -> UnreportedCounts:
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

    def _commit(
        self,
        positions: Mapping[TopicPartition, int],
        counts: Mapping[str, int],
        collector: ProducerCollector,
        clock: PhaseClock,
    ) -> None:
        """Commits a batch: steps 5 and 6 of the module's docstring, under the same numbers."""
        producer, state, engine = self._output.producer, self._state, self._engine
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

    def _commit_again(self, clock: PhaseClock, unreported: UnreportedCounts) -> None:
        """Commits the committed offsets again, with the state's signature as it is."""
        collector = self._output.collector()
        try:
            self._report(unreported, collector)
            self._commit(self._committed, {}, collector, clock)
        except BaseException:
            self._return_unreported(unreported)
            self.close()
            raise

    def _already_committed(self, clock: PhaseClock, unreported: UnreportedCounts) -> BatchOutcome:
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
