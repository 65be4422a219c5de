from __future__ import annotations

import pytest

from millrace.errors import ConfigurationError
from millrace.sizing import estimate_restore_time


def seconds(*records: int, threads: int = 2) -> float:
    return estimate_restore_time(records, restore_threads=threads, records_per_s=100, restore_start_s=1)


def test_restorations_take_the_next_place_that_is_free_the_largest_first() -> None:
    assert seconds(100, 100) == 2
    assert seconds(100, 100, 100) == 4
    assert seconds(100, 100, 300) == 4
    assert seconds(100, 200, threads=1) == 5


def test_nothing_to_restore_takes_no_time() -> None:
    assert seconds() == 0
    assert seconds(0, 0) == 0


def test_numbers_out_of_their_range_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="restore_threads"):
        seconds(1, threads=0)
