"""What is read from a dead letter, and which ones are meant."""

from __future__ import annotations

import pytest

from millrace.errors import OperationError
from millrace.handlers import ErrorHandlerContext, dead_letter, dead_letters_for
from millrace.ops.dead_letters import DeadLetter, Selection, parse_letter
from millrace.ops.dead_letters.letter import Headers, letter_of
from millrace.ops.dead_letters.selection import as_ranges

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


def read(headers: Headers, timestamp: int = 5) -> DeadLetter:
    return letter_of(partition=0, offset=1, key=b"k", value=None, headers=headers, timestamp=timestamp)


def test_the_letter_of_an_exception_gives_the_record_s_headers_back() -> None:
    (written,) = dead_letters_for("dlq", CONTEXT, ValueError("no number"))
    letter = read(written.headers)
    assert letter.headers == OWN
    assert (letter.topic, letter.source_partition, letter.source_offset) == ("in", 3, 17)
    assert (letter.error, letter.message) == ("builtins.ValueError", "no number")
    assert letter.stacktrace.startswith("ValueError: no number")


def test_the_letter_of_a_dropped_record_names_reason_and_node() -> None:
    written = dead_letter(
        "dlq", CONTEXT, ("__millrace.dropped.reason", b"late"), ("__millrace.dropped.node", b"KSTREAM-AGGREGATE-1")
    )
    letter = read(written.headers)
    assert letter.headers == OWN
    assert (letter.error, letter.message) == ("late", "KSTREAM-AGGREGATE-1")


def test_a_letter_that_could_not_have_the_record_s_timestamp_gives_it_back() -> None:
    """Case E16: its own is that of the letter, and the record's may be the very reason for it."""
    (written,) = dead_letters_for("dlq", CONTEXT, ValueError("far ahead"))
    letter = letter_of(
        partition=0,
        offset=1,
        key=b"k",
        value=None,
        headers=[*written.headers, ("__millrace.timestamp", b"9223372036854775807")],
        timestamp=5,
        has_own_timestamp=False,
    )
    assert letter.headers == OWN
    assert (letter.timestamp, letter.has_own_timestamp, letter.topic) == (2**63 - 1, True, "in")


def test_a_letter_that_says_nothing_keeps_all_its_headers() -> None:
    letter = read([("a", b"1")])
    assert letter.headers == [("a", b"1")]
    assert (letter.topic, letter.error) == (None, "")


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
        (Selection(letters=frozenset({(0, 1)})), True),
        (Selection(letters=frozenset({(0, 2)})), False),
        (Selection(topic="in", error="null"), False),
    ],
)
def test_a_letter_is_meant_if_it_fits_everything(selection: Selection, is_meant: bool) -> None:
    written = dead_letter("dlq", CONTEXT, ("__millrace.dropped.reason", b"late"), ("__millrace.dropped.node", b"n"))
    assert selection.has(read(written.headers)) is is_meant


def test_a_letter_that_was_named_and_is_not_there_is_an_error() -> None:
    selection = Selection(letters=frozenset({(0, 1), (2, 3)}))
    with pytest.raises(OperationError, match="no such dead letter: 2:3"):
        selection.check_found({(0, 1)})
    assert parse_letter("2:3") == (2, 3)
    with pytest.raises(OperationError, match="names no dead letter"):
        parse_letter("2-3")


def test_offsets_are_kept_as_ranges() -> None:
    assert as_ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert as_ranges([]) == []
