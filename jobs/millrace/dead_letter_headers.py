"""Names of the headers by which a dead-letter record says what happened, for writers and readers."""

from __future__ import annotations

EXCEPTION = "__streams.errors.exception"
"""Class of the exception. Those of Kafka Streams (KIP-1034) begin so; the value is text in UTF-8, here as in all."""
MESSAGE = "__streams.errors.message"
STACKTRACE = "__streams.errors.stacktrace"

TOPIC = "__streams.errors.topic"
"""Where the record was read; ``None`` as text where it came from no topic. So are partition and offset."""
PARTITION = "__streams.errors.partition"
OFFSET = "__streams.errors.offset"

DROPPED_REASON = "__millrace.dropped.reason"
"""Why an operator dropped the record, where no exception did."""
DROPPED_NODE = "__millrace.dropped.node"

TIMESTAMP = "__millrace.timestamp"
"""The record's own timestamp, milliseconds, where the dead-letter topic does not take it."""
