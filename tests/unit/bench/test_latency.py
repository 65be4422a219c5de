from __future__ import annotations

import numpy as np

from tests.bench.latency import Seen, Sent, figures_of_latencies, latencies_of
from tests.bench.output import Updates
from tests.bench.workloads import FIRST_EVENT_MS, WINDOW_MS, IntArray

T = FIRST_EVENT_MS


def column(*values: int) -> IntArray:
    return np.asarray(values, dtype=np.int64)


def seen(*rows: tuple[int, int, int, int]) -> Seen:
    users, starts, counts, at_ms = np.asarray(rows, dtype=np.int64).T
    return Seen(Updates(users, starts, counts), at_ms)


def test_a_merged_update_ends_the_wait_of_every_payment_in_it() -> None:
    sent = Sent(column(1, 1, 1), column(T, T + 10, T + 20))
    assert latencies_of(sent, seen((1, T, 3, T + 100))).tolist() == [100, 90, 80]


def test_a_payment_waits_for_the_first_count_that_includes_it() -> None:
    sent = Sent(column(1, 2, 1), column(T, T + 5, T + 20))
    got = seen((1, T, 1, T + 50), (2, T, 1, T + 60), (1, T, 2, T + 300))
    assert latencies_of(sent, got).tolist() == [50, 55, 280]


def test_a_count_of_another_window_of_the_same_user_does_not_end_the_wait() -> None:
    sent = Sent(column(1, 1), column(T, T + WINDOW_MS))
    first, second = latencies_of(sent, seen((1, T + WINDOW_MS, 1, T + WINDOW_MS + 40)))
    assert np.isnan(first)
    assert second == 40


def test_a_payment_beyond_the_newest_count_has_no_latency() -> None:
    sent = Sent(column(1, 1), column(T, T + 1))
    first, second = latencies_of(sent, seen((1, T, 1, T + 9)))
    assert first == 9
    assert np.isnan(second)


def test_counts_of_users_that_were_not_sent_are_ignored() -> None:
    sent = Sent(column(5), column(T))
    assert latencies_of(sent, seen((4, T, 1, T + 1), (6, T, 1, T + 2), (5, T, 1, T + 3))).tolist() == [3]


def test_percentiles_are_those_of_the_payments() -> None:
    figures = figures_of_latencies(np.arange(1.0, 102.0))
    assert (figures.records, figures.p50_ms, figures.p99_ms, figures.worst_ms) == (101, 51.0, 100.0, 101.0)
