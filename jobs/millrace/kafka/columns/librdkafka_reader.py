"""The reader over librdkafka's C interface: no Python object is made between a record and its columns."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from confluent_kafka import KafkaError

from millrace.kafka.clients import client_log, translate
from millrace.kafka.columns.c_interface import (
    CONSUMER,
    DESTROY_WITHOUT_CONSUMER_CLOSE,
    EVENT_ERROR,
    EVENT_LOG,
    new_client,
)
from millrace.kafka.columns.disputed import ASKING_LIMIT_MS, DisputedOffsets
from millrace.kafka.columns.layout_check import checked_kernel
from millrace.kafka.columns.problems import OUT_OF_RANGE, ReaderProblems
from millrace.kafka.columns.reader import PartitionColumns
from millrace.kafka.columns.settings import ReaderSettings, refused_settings
from millrace.kafka.columns.tables import MessageTable
from millrace.topology.topic_partition import TopicPartition

_LOG_LEVELS = (*[logging.CRITICAL] * 3, logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)
"""Python's log level for each level number of syslog."""


class LibrdkafkaReader:
    """The :class:`~millrace.kafka.columns.reader.PartitionReader` over librdkafka's C interface.

    Args:
        settings: how to connect, and how much to buffer.

    Raises:
        ConfigurationError: the client does not take a setting.
        InterfaceUnavailableError: this process cannot use the C interface.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self._library, self._loops = checked_kernel()
        self._bootstrap_servers = settings.bootstrap_servers
        self._problems = ReaderProblems(settings.bootstrap_servers)
        self._positions: dict[TopicPartition, int] = {}
        self._disputed = DisputedOffsets(self._ask_log)
        self._messages = np.zeros(1, dtype=np.uint64)
        chosen = {name: value for name, value in settings.of_client().items() if name != "logger"}
        try:
            # The client's own threads then never enter Python: logs and errors wait in a queue until a poll.
            self._client: int | None = new_client(
                self._library, CONSUMER, {**chosen, "log.queue": True}, events=EVENT_LOG | EVENT_ERROR
            )
        except ValueError as error:
            raise refused_settings(str(error)) from error
        self._library.rd_kafka_set_log_queue(self._client, None)
        self._events = self._library.rd_kafka_queue_get_main(self._client)
        self._records = self._library.rd_kafka_queue_get_consumer(self._client)

    @property
    def trouble(self) -> str:
        """The reason why no records may arrive at present."""
        return self._problems.trouble

    @property
    def failed(self) -> TopicPartition | None:
        """The topic-partition that the last error is about."""
        return self._problems.failed

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Assigns further topic-partitions."""
        self.unassign(starts)
        self._assign(starts)

    def _assign(self, starts: Mapping[TopicPartition, int]) -> None:
        if starts:
            self._positions |= starts
            with self._as_list(starts, starts) as partitions:
                self._check(self._library.rd_kafka_incremental_assign(self._client, partitions), "assigning partitions")

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes topic-partitions from the assignment."""
        for each in partitions:
            self._disputed.discard(each)
        self._unassign(partitions)

    def _unassign(self, partitions: Collection[TopicPartition]) -> None:
        known = [each for each in partitions if self._positions.pop(each, None) is not None]
        if known:
            with self._as_list(known) as listed:
                self._check(self._library.rd_kafka_incremental_unassign(self._client, listed), "giving partitions up")

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Pauses topic-partitions until they are resumed."""
        with self._as_list(partitions) as listed:
            self._check_code(self._library.rd_kafka_pause_partitions(self._client, listed), "pausing partitions")

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes paused topic-partitions."""
        with self._as_list(partitions) as listed:
            self._check_code(self._library.rd_kafka_resume_partitions(self._client, listed), "resuming partitions")

    def poll(self, timeout_s: float, max_records: int) -> list[PartitionColumns]:
        """Returns the records and events that are available."""
        self._refuse_if_closed()
        if again := self._disputed.take_due():
            self._unassign(again)
            self._assign(again)
        self._take_events()
        self._problems.raise_first()
        count = self._consume(timeout_s, max_records)
        self._take_events()
        messages = self._messages[:count]
        try:
            found = self._columns(MessageTable(self._loops, messages)) if count else []
        finally:
            self._loops.destroy(messages.ctypes.data, count)
        if not found:
            self._problems.raise_first()
        return found

    def close(self) -> None:
        """Closes the client."""
        if self._client is not None:
            client, self._client = self._client, None
            for queue in (self._records, self._events):
                self._library.rd_kafka_queue_destroy(queue)
            # There is no group to leave and nothing to commit.
            self._library.rd_kafka_destroy_flags(client, DESTROY_WITHOUT_CONSUMER_CLOSE)

    def _consume(self, timeout_s: float, most: int) -> int:
        """Fills the array of messages and returns their number."""
        if len(self._messages) < most:
            self._messages = np.zeros(most, dtype=np.uint64)
        address = self._messages.ctypes.data
        # With room for more than one, the call would wait until all of it is full.
        count = self._consumed(int(timeout_s * 1000), address, 1)
        if count and most > 1:
            count += self._consumed(0, address + self._messages.itemsize, most - 1)
        return count

    def _consumed(self, timeout_ms: int, address: int, most: int) -> int:
        count = int(self._library.rd_kafka_consume_batch_queue(self._records, timeout_ms, address, most))
        if count < 0:
            self._check_code(self._library.rd_kafka_last_error(), "reading")
        return max(count, 0)

    def _columns(self, table: MessageTable) -> list[PartitionColumns]:
        found = []
        for where, own in table.by_partition(lambda topic: self._library.rd_kafka_topic_name(topic).decode()):
            if where is None:
                self._take_client_errors(own)
            elif where in self._positions and (columns := self._of_partition(where, own)) is not None:
                found.append(columns)
        return found

    def _of_partition(self, where: TopicPartition, table: MessageTable) -> PartitionColumns | None:
        end = None
        position = self._positions[where]
        without_records = np.flatnonzero(table.errors)
        is_end = table.errors[without_records] == KafkaError._PARTITION_EOF
        has_news = len(without_records) < len(table) or bool(is_end.any())
        for row in without_records[is_end].tolist():
            end = int(table.offsets[row])
            position = max(position, end)
        records = table.without_errors().records()
        if len(records.offsets):
            behind = int(records.offsets[-1]) + 1
            # Where records follow the event, the log went on.
            end = end if end is not None and end >= behind else None
            position = max(position, behind)
        if has_news:
            self._disputed.discard(where)
        # The client fetches no more behind an error of a topic-partition: whatever came with it came before it.
        for row in without_records[~is_end].tolist():
            if int(table.errors[row]) not in OUT_OF_RANGE or not self._disputed.disputes(where, position):
                self._problems.of_partition(self._error(table, row), where, position)
        self._positions[where] = position
        if not has_news:
            return None
        return PartitionColumns(
            topic=where[0],
            partition=where[1],
            offsets=records.offsets,
            timestamps=records.timestamps,
            keys=records.keys,
            values=records.values,
            headers=records.headers,
            position=position,
            end=end,
            log_end=self._log_end(where),
        )

    def _log_end(self, where: TopicPartition) -> int | None:
        low, high = ctypes.c_int64(), ctypes.c_int64()
        code = self._library.rd_kafka_get_watermark_offsets(
            self._client, where[0].encode(), where[1], ctypes.byref(low), ctypes.byref(high)
        )
        return high.value if code == 0 and high.value >= 0 else None

    def _ask_log(self, where: TopicPartition) -> tuple[int, int] | None:
        low, high = ctypes.c_int64(), ctypes.c_int64()
        code = self._library.rd_kafka_query_watermark_offsets(
            self._client, where[0].encode(), where[1], ctypes.byref(low), ctypes.byref(high), ASKING_LIMIT_MS
        )
        return (low.value, high.value) if code == 0 else None

    def _take_client_errors(self, table: MessageTable) -> None:
        for row in np.flatnonzero(table.errors).tolist():
            self._problems.of_client(self._error(table, row))

    def _error(self, table: MessageTable, row: int) -> KafkaError:
        text = self._library.rd_kafka_message_errstr(int(table.messages[row]))
        return KafkaError(int(table.errors[row]), (text or b"").decode(errors="replace"))

    def _take_events(self) -> None:
        while event := self._library.rd_kafka_queue_poll(self._events, 0):
            try:
                kind = self._library.rd_kafka_event_type(event)
                if kind == EVENT_LOG:
                    self._log_event(event)
                elif kind == EVENT_ERROR:
                    self._problems.of_client(self._error_of_event(event))
            finally:
                self._library.rd_kafka_event_destroy(event)

    def _log_event(self, event: int) -> None:
        facility, text, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int()
        self._library.rd_kafka_event_log(event, ctypes.byref(facility), ctypes.byref(text), ctypes.byref(level))
        name = self._library.rd_kafka_name(self._client)
        said = [(each or b"").decode(errors="replace") for each in (facility.value, name, text.value)]
        client_log.log(_LOG_LEVELS[min(max(level.value, 0), len(_LOG_LEVELS) - 1)], "%s [%s] %s", *said)

    def _error_of_event(self, event: int) -> KafkaError:
        code = self._library.rd_kafka_event_error(event)
        text = self._library.rd_kafka_event_error_string(event)
        is_fatal = bool(self._library.rd_kafka_event_error_is_fatal(event))
        if is_fatal:
            # The event says only that there is a fatal error; which one is asked for.
            reason = ctypes.create_string_buffer(512)
            code = self._library.rd_kafka_fatal_error(self._client, reason, len(reason)) or code
            text = reason.value or text
        return KafkaError(code, (text or b"").decode(errors="replace"), fatal=is_fatal)

    @contextmanager
    def _as_list(
        self, partitions: Iterable[TopicPartition], starts: Mapping[TopicPartition, int] | None = None
    ) -> Iterator[int]:
        """Yields a list of topic-partitions in librdkafka's form, with offsets where they are given."""
        self._refuse_if_closed()
        library = self._library
        listed = library.rd_kafka_topic_partition_list_new(0)
        try:
            for topic, partition in partitions:
                library.rd_kafka_topic_partition_list_add(listed, topic.encode(), partition)
                if starts is not None:
                    offset = starts[topic, partition]
                    library.rd_kafka_topic_partition_list_set_offset(listed, topic.encode(), partition, offset)
            yield listed
        finally:
            library.rd_kafka_topic_partition_list_destroy(listed)

    def _refuse_if_closed(self) -> None:
        # The library would read what is not there any more, and end the process.
        if self._client is None:
            raise RuntimeError("the reader is closed")

    def _check(self, error: int | None, doing: str) -> None:
        if error:
            code = self._library.rd_kafka_error_code(error)
            text = self._library.rd_kafka_error_string(error).decode(errors="replace")
            self._library.rd_kafka_error_destroy(error)
            raise translate(KafkaError(code, text), doing=doing, bootstrap_servers=self._bootstrap_servers)

    def _check_code(self, code: int, doing: str) -> None:
        if code:
            text = self._library.rd_kafka_err2str(code).decode(errors="replace")
            raise translate(KafkaError(code, text), doing=doing, bootstrap_servers=self._bootstrap_servers)
