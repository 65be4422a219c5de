"""How many rows a batch takes by what the batches before have merged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.spark.stream_threads.cache_limit import BATCHES, CacheLimit

SHARE = 100 * 1_024


def merged_by(keys: int, size_bytes: int) -> Callable[[int], int]:
    """What rows merge to where each has one of so many keys, evenly."""
    return lambda rows: min(rows, keys) * size_bytes


def run(limit: CacheLimit, merged: Callable[[int], int], batches: int = 12) -> list[int]:
    """The bytes that batches merge that are as large as they may be."""
    sizes = []
    for _ in range(batches):
        rows = limit.rows
        sizes.append(merged(rows))
        limit.observe(rows, sizes[-1])
    return sizes


@pytest.mark.parametrize(("share", "rows"), [(0, 1), (1_023, 1), (2_048, 2), (SHARE, 100)])
def test_the_first_batch_takes_a_row_for_each_kib(share: int, rows: int) -> None:
    assert CacheLimit(share).rows == rows


def test_batches_fill_the_share_and_never_exceed_it_where_rows_merge_as_they_did() -> None:
    sizes = run(CacheLimit(SHARE), merged_by(keys=1_000_000, size_bytes=100))
    assert max(sizes) <= SHARE
    assert sizes[-1] > 0.99 * SHARE


def test_rows_of_few_keys_are_limited_by_what_has_been_shown_only() -> None:
    limit = CacheLimit(SHARE)
    assert run(limit, merged_by(keys=10, size_bytes=100), batches=4) == [1_000] * 4
    assert limit.rows == 100 * 2**4, "twice as many as the largest batch"


def test_a_batch_that_merged_too_much_makes_the_next_one_smaller_until_they_fit() -> None:
    limit = CacheLimit(SHARE)
    run(limit, merged_by(keys=10, size_bytes=10), batches=7)
    assert limit.rows == 100 * 2**7
    sizes = run(limit, merged_by(keys=5_000, size_bytes=200), batches=4)
    assert sizes[0] == 5_000 * 200
    assert sizes[1] < sizes[0]
    assert max(sizes[2:]) <= SHARE


def test_rows_that_merge_more_than_the_share_go_one_by_one() -> None:
    limit = CacheLimit(1_000)
    assert run(limit, lambda rows: rows * 5_000, batches=3) == [5_000] * 3
    assert limit.rows == 1


def test_it_grows_again_once_the_batches_that_merged_much_are_forgotten() -> None:
    limit = CacheLimit(SHARE)
    limit.observe(100, 100 * 10_240)
    assert limit.rows == 10
    run(limit, merged_by(keys=1_000_000, size_bytes=100), batches=BATCHES - 1)
    assert limit.rows == 10
    run(limit, merged_by(keys=1_000_000, size_bytes=100), batches=6)
    assert limit.rows == 1_024


def test_a_batch_without_rows_says_nothing() -> None:
    limit = CacheLimit(SHARE)
    limit.observe(0, 10_000_000)
    assert limit.rows == 100
