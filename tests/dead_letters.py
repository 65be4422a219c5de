"""Dead-letter records as the built-in handlers write them."""

from __future__ import annotations

from millrace.handlers import ErrorHandlerContext, dead_letters_for
from tests.records import Record

TIME = 1_700_000_000_000


def dead_letter_record_of(topic: str, offset: int, key: bytes | None, error: Exception) -> Record:
    """A dead-letter record as the built-in handlers write it; all lie in partition 0 of the dead-letter topic."""
    context = ErrorHandlerContext(
        topic=topic,
        partition=1,
        offset=offset,
        # Such a header may be the record's own, where it was read from a dead-letter topic.
        headers=[("trace", b"\x00\xff"), ("empty", None), ("__streams.errors.topic", b"older")],
        processor_node_id="node",
        task_id="0_1",
        timestamp=TIME + offset,
        source_raw_key=key,
        source_raw_value=b"\xfe%d" % offset,
    )
    (record,) = dead_letters_for("ignored", context, error)
    return Record(record.key, record.value, record.timestamp, partition=0, headers=record.headers)
