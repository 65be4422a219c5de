"""The errors of a client, translated for those who read columns."""

from __future__ import annotations

import time
from collections import deque

import structlog
from confluent_kafka import KafkaError

from millrace.errors import MillraceError, OffsetOutOfRangeError
from millrace.kafka.clients import is_refusal, translate
from millrace.topology.topic_partition import TopicPartition

OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""Codes that say that an offset is not in the log."""

_REPORTED_AGAIN_S = 5.0
"""How long a report of an unreachable broker counts, seconds: the client repeats it at least once a second."""

_log = structlog.get_logger(__name__)


class ReaderProblems:
    """The errors since the last poll, and whether a broker can be reached.

    Args:
        bootstrap_servers: as messages name the cluster.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._raised: deque[tuple[MillraceError, TopicPartition | None]] = deque()
        self.failed: TopicPartition | None = None
        self._connection_error = ""
        self._trouble = ""
        self._reported_at = 0.0

    @property
    def trouble(self) -> str:
        """The reason why no broker can be reached, from the client's errors of the last seconds; else empty."""
        if self._trouble and time.monotonic() - self._reported_at > _REPORTED_AGAIN_S:
            _log.info("a broker is reached again", brokers=self._bootstrap_servers)
            self._trouble = ""
        return self._trouble

    def of_partition(self, error: KafkaError, where: TopicPartition, position: int | None) -> None:
        """Records an error of a topic-partition; :meth:`raise_first` raises it.

        Args:
            error: what the client said.
            where: the topic-partition.
            position: the offset that was to be read next, ``None`` where that is the begin of the log.
        """
        topic, partition = where
        translated: MillraceError
        if error.code() in OUT_OF_RANGE:
            translated = OffsetOutOfRangeError(
                f"Offset {'at the begin' if position is None else position} of {topic}-{partition} is not in the "
                f"log any more: {error.str()}.",
                remedy="restore a savepoint, or reset the application to an offset that exists",
            )
        else:
            translated = self._translated(error, f"reading {topic}-{partition}")
        self._raised.append((translated, where))

    def of_client(self, error: KafkaError) -> None:
        """Records an error of the client as a whole.

        Refusals and fatal errors are raised by :meth:`raise_first`; what else there is the client tries again by
        itself, and it is in its log.
        """
        if is_refusal(error) or error.fatal():
            self._raised.append((self._translated(error, "reading"), None))
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            is_new = not self.trouble
            self._trouble = ": ".join(filter(None, (error.str(), self._connection_error)))
            self._reported_at = time.monotonic()
            if is_new:
                _log.warning("no broker is reached", brokers=self._bootstrap_servers, reason=self._trouble)
        else:
            self._connection_error = error.str()

    def raise_first(self) -> None:
        """Raises the oldest error that has not been raised yet.

        Raises:
            MillraceError: see :meth:`PartitionReader.poll`.
        """
        if self._raised:
            error, self.failed = self._raised.popleft()
            raise error

    def _translated(self, error: KafkaError, doing: str) -> MillraceError:
        return translate(error, doing=doing, bootstrap_servers=self._bootstrap_servers)
