"""A task's way to its topics: the producer with its transactional id, and what brokers take and refuse."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from millrace.errors import BrokerUnavailableError, ConfigurationError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.producer import TaskProducer
from millrace.kafka.refusals import KnownRefusals, RecordsRefusedError
from millrace.metrics import TransactionOutcome
from millrace.task.newest_run import check_newest_run
from millrace.task.producer_collector import ProducerCollector
from millrace.task.spec import TaskSpec
from millrace.task.topics_written import TopicsWritten

ISOLATED_ROWS = 1_000
"""Most rows of a batch whose output is sent record by record, to learn which ones the broker refuses."""

PRODUCER_TIMEOUT_S = 15.0
"""Longest time of one call of the producer: the sooner one without an answer is discarded, the sooner another
continues."""

_log = structlog.get_logger(__name__)


class TransactionalOutput:
    """The producer of a task, and what it has learned about the topics that it writes to.

    The producer is open from a takeover of the transactional id until it is closed; what was learned stays.

    Args:
        spec: the task.
        admin: the cluster.
        check_unmoved: called after another producer has taken the id over within a batch; raises where the committed
            offsets are not those that the batch began at.
        on_transaction_end: called with the end of each transaction.
    """

    def __init__(
        self,
        spec: TaskSpec,
        admin: KafkaAdmin,
        *,
        check_unmoved: Callable[[], None],
        on_transaction_end: Callable[[TransactionOutcome], None],
    ) -> None:
        self._spec = spec
        self._check_unmoved = check_unmoved
        self._on_transaction_end = on_transaction_end
        self._topics = TopicsWritten(spec, admin)
        self._sent_topics: set[str] = set()
        self._known_refusals = KnownRefusals()
        self._isolates = False
        self._producer: TaskProducer | None = None

    @property
    def producer(self) -> TaskProducer:
        """The producer, which is open."""
        assert self._producer is not None
        return self._producer

    @property
    def most_rows(self) -> int | None:
        """The limit of a batch's rows while records are sent one by one; ``None`` where there is no limit.

        The rows of a frame function have to stay together.
        """
        if not self._isolates or any(source.frame_functions for source in self._spec.sub_topology.sources):
            return None
        return ISOLATED_ROWS

    def open(self) -> None:
        """Takes the transactional id over, which ends whatever an older attempt left open.

        Raises:
            DriverFencedError: the task's driver is not the newest one, before or after that.
            MillraceError: the broker did not answer, or refuses the id.
        """
        spec = self._spec
        check_newest_run(spec)
        producer = TaskProducer(
            spec.config.bootstrap_servers,
            transactional_id=spec.transactional_id,
            transaction_timeout_ms=spec.config.transaction_timeout_ms,
            settings=spec.config.client_settings("producer."),
            topic_limits=self._topics.limits,
            isolates=self._isolates,
            timeout_s=PRODUCER_TIMEOUT_S,
            on_transaction_end=self._on_transaction_end,
        )
        try:
            producer.init()
            # Who took over between the question and the call has fenced nothing of this attempt.
            check_newest_run(spec)
        except BaseException:
            producer.close()
            raise
        self._producer = producer

    def close(self) -> None:
        """Aborts an open transaction and closes the producer. Idempotent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def collector(self) -> ProducerCollector:
        """Returns a collector for the output of one batch."""
        return ProducerCollector(
            self.producer,
            self._topics,
            self._learn_topic,
            known_refusals=self._known_refusals,
            sent_topics=self._sent_topics,
        )

    def _learn_topic(self, topic: str, *, dead_letters: bool = False) -> TaskProducer:
        """Looks up a topic that a record or a dead-letter record names; returns the producer that can write to it.

        A producer's batches fit the topics that were known when it was made. Nothing of the batch is sent yet: all
        topics are asked for before that.
        """
        self._topics.learn(topic, dead_letters=dead_letters)
        limits = self._topics.limits[topic]
        if self.producer.fits(limits.max_message_bytes):
            self.producer.add_topic(topic, limits)
            return self.producer
        if self.producer.in_transaction:
            # A dead-letter record for a record that turned out too large when it was sent. A new producer would lose
            # what was sent.
            raise ConfigurationError(
                f"Task {self._spec.name} has a dead-letter record for topic {topic}, whose max.message.bytes "
                f"({limits.max_message_bytes}) its producer does not fit, and has sent records already.",
                remedy="give the topic the max.message.bytes of the output topics, or name it in "
                "errors.dead.letter.queue.topic.name, so that it is known from the start",
            )
        self.close()
        self.open()
        self._check_unmoved()
        return self.producer

    def learn_refusals(self, error: RecordsRefusedError | BrokerUnavailableError, *, is_last: bool) -> None:
        """Finds out which records the broker refused, so that the next attempt at the batch does not send them.

        Its topic's settings may be others than at the start; otherwise each record is sent by itself, which shows it.

        Args:
            error: how the attempt ended.
            is_last: whether there is no further attempt.

        Raises:
            MillraceError: nothing was found that another attempt would leave out, or there is none.
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
        _log.warning(
            "the broker refuses records; the batch is processed again",
            application=self._spec.config.application_id,
            task=self._spec.name,
            reason=error.message,
        )

    def discard_refusals(self) -> bool:
        """Forgets the refused records of a batch that is committed.

        Returns:
            Whether the producer sent records one by one, so that the task has to be opened again to be fast.
        """
        self._known_refusals = KnownRefusals()
        self._sent_topics.clear()
        isolated, self._isolates = self._isolates, False
        return isolated
