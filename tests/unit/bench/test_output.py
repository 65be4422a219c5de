from __future__ import annotations

import numpy as np
import pytest

from tests.bench.output import Updates, WrongOutputError, check_counts, decode_updates
from tests.bench.workloads import FIRST_EVENT_MS, WINDOW_MS, WindowCounts

NEXT_WINDOW_MS = FIRST_EVENT_MS + WINDOW_MS


def updates(*rows: tuple[int, int, int]) -> Updates:
    users, starts, counts = np.asarray(rows, dtype=np.int64).T
    return Updates(users, starts, counts)


EXPECTED = WindowCounts(
    np.asarray([1, 1, 2], dtype=np.int64),
    np.asarray([FIRST_EVENT_MS, NEXT_WINDOW_MS, FIRST_EVENT_MS], dtype=np.int64),
    np.asarray([2, 1, 3], dtype=np.int64),
)
RIGHT = ((2, FIRST_EVENT_MS, 1), (1, FIRST_EVENT_MS, 2), (1, NEXT_WINDOW_MS, 1), (2, FIRST_EVENT_MS, 3))


def test_bytes_of_windowed_keys_and_longs_become_columns() -> None:
    key = b"u0012345" + FIRST_EVENT_MS.to_bytes(8, "big")
    decoded = decode_updates([key, key], [(7).to_bytes(8, "big"), (300).to_bytes(8, "big")])
    assert decoded.users.tolist() == [12_345, 12_345]
    assert decoded.starts.tolist() == [FIRST_EVENT_MS, FIRST_EVENT_MS]
    assert decoded.counts.tolist() == [7, 300]


def test_a_key_of_another_layout_is_refused() -> None:
    with pytest.raises(WrongOutputError, match="windowed user key"):
        decode_updates([b"u0012345" + bytes(12)], [bytes(8)])


def test_the_last_update_of_each_window_counts() -> None:
    check_counts(updates(*RIGHT), EXPECTED, exactly_once=True)


def test_a_missing_window_is_found() -> None:
    with pytest.raises(WrongOutputError, match="1 windows of users are missing, 0 are not in the input"):
        check_counts(updates(*RIGHT[:2], RIGHT[3]), EXPECTED, exactly_once=True)


def test_a_window_that_is_not_in_the_input_is_found() -> None:
    with pytest.raises(WrongOutputError, match="0 windows of users are missing, 1 are not in the input"):
        check_counts(updates(*RIGHT, (9, FIRST_EVENT_MS, 1)), EXPECTED, exactly_once=True)


def test_a_wrong_count_is_found_and_named() -> None:
    with pytest.raises(WrongOutputError, match=f"user 2 at {FIRST_EVENT_MS}: 4 instead of 3"):
        check_counts(updates(*RIGHT, (2, FIRST_EVENT_MS, 4)), EXPECTED, exactly_once=True)


def test_an_update_that_was_written_twice_is_an_error_only_under_exactly_once() -> None:
    doubled = updates(RIGHT[0], *RIGHT)
    check_counts(doubled, EXPECTED, exactly_once=False)
    with pytest.raises(WrongOutputError, match="1 counts were written more than once"):
        check_counts(doubled, EXPECTED, exactly_once=True)
