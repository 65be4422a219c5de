"""What is read from a dead-letter record, and which ones are meant."""

from __future__ import annotations

import pytest

from millrace.errors import OperationError
from millrace.handlers import ErrorHandlerContext, dead_letter, dead_letters_for
from millrace.operations.dead_letters import DeadLetterRecord, Selection, parse_record_position
from millrace.operations.dead_letters.record import Headers, dead_letter_record_of
from millrace.operations.dead_letters.selection import as_ranges

OWN: Headers = [("a", b"1"), ("a", None), ("__millrace.dropped.node", b"of the record itself")]
CONTEXT = ErrorHandlerContext(
    topic="in",
    partition=3,
    offset=17,
    headers=OWN,
    processor_node_id="node",
    task_id="0_3",
    timestamp=5,
    source_raw_key=b"k",
    source_raw_value=None,
)


def read(headers: Headers, timestamp: int = 5) -> DeadLetterRecord:
    return dead_letter_record_of(partition=0, offset=1, key=b"k", value=None, headers=headers, timestamp=timestamp)


def test_the_letter_of_an_exception_gives_the_record_s_headers_back() -> None:
    (written,) = dead_letters_for("dlq", CONTEXT, ValueError("no number"))
    record = read(written.headers)
    assert record.headers == OWN
    assert (record.topic, record.source_partition, record.source_offset) == ("in", 3, 17)
    assert (record.error, record.message) == ("builtins.ValueError", "no number")
    assert record.stacktrace.startswith("ValueError: no number")


def test_the_letter_of_a_dropped_record_names_reason_and_node() -> None:
    written = dead_letter(
        "dlq", CONTEXT, ("__millrace.dropped.reason", b"late"), ("__millrace.dropped.node", b"KSTREAM-AGGREGATE-1")
    )
    record = read(written.headers)
    assert record.headers == OWN
    assert (record.error, record.message) == ("late", "KSTREAM-AGGREGATE-1")


def test_a_letter_that_could_not_have_the_record_s_timestamp_gives_it_back() -> None:
    """Case E16: its own is that of the dead-letter record, and the record's may be the very reason for it."""
    (written,) = dead_letters_for("dlq", CONTEXT, ValueError("far ahead"))
    record = dead_letter_record_of(
        partition=0,
        offset=1,
        key=b"k",
        value=None,
        headers=[*written.headers, ("__millrace.timestamp", b"9223372036854775807")],
        timestamp=5,
        has_own_timestamp=False,
    )
    assert record.headers == OWN
    assert (record.timestamp, record.has_own_timestamp, record.topic) == (2**63 - 1, True, "in")


def test_a_letter_that_says_nothing_keeps_all_its_headers() -> None:
    record = read([("a", b"1")])
    assert record.headers == [("a", b"1")]
    assert (record.topic, record.error) == (None, "")


def test_a_letter_of_a_punctuation_was_read_nowhere() -> None:
    assert read([("__streams.errors.topic", b"None"), ("__streams.errors.partition", b"-1")]).topic is None


@pytest.mark.parametrize(
    ("selection", "is_meant"),
    [
        (Selection(), True),
        (Selection(since_ms=5, until_ms=6), True),
        (Selection(since_ms=6), False),
        (Selection(until_ms=5), False),
        (Selection(error="LATE"), True),
        (Selection(error="null"), False),
        (Selection(topic="in"), True),
        (Selection(topic="out"), False),
        (Selection(positions=frozenset({(0, 1)})), True),
        (Selection(positions=frozenset({(0, 2)})), False),
        (Selection(topic="in", error="null"), False),
    ],
)
def test_a_letter_is_meant_if_it_fits_everything(selection: Selection, is_meant: bool) -> None:
    written = dead_letter("dlq", CONTEXT, ("__millrace.dropped.reason", b"late"), ("__millrace.dropped.node", b"n"))
    assert selection.has(read(written.headers)) is is_meant


def test_a_letter_that_was_named_and_is_not_there_is_an_error() -> None:
    selection = Selection(positions=frozenset({(0, 1), (2, 3)}))
    with pytest.raises(OperationError, match="no such dead-letter record: 2:3"):
        selection.check_found({(0, 1)})
    assert parse_record_position("2:3") == (2, 3)
    with pytest.raises(OperationError, match="names no dead-letter record"):
        parse_record_position("2-3")


def test_offsets_are_kept_as_ranges() -> None:
    assert as_ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert as_ranges([]) == []
