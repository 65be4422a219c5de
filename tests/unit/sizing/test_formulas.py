"""What follows from the formulas alone; measured runs are in tests/integration/sizing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from millrace.errors import ConfigurationError, TopologyError
from millrace.sizing import (
    JoinCosts,
    calculate_eos_overhead,
    estimate_changelog_size,
    estimate_join_performance,
    estimate_recovery_time,
    estimate_state_size,
    log_record_bytes,
)

EOS: dict[str, Any] = {
    "tasks": 4,
    "partitions_per_transaction": 2,
    "commit_interval_s": 0.5,
    "bytes_per_second": 10_000,
}
JOIN: dict[str, Any] = {"records_per_second": 50_000, "match_share": 0.5, "table_keys": 1_000, "entry_bytes": 100}
LOG: dict[str, Any] = {"live_records": 1_000, "record_bytes": 100, "updates_per_second": 10, "partitions": 2}


def test_a_window_store_has_an_entry_for_each_key_and_live_window() -> None:
    plain = estimate_state_size(keys=100, key_bytes=10, value_bytes=20)
    windowed = estimate_state_size(
        keys=100, key_bytes=10, value_bytes=20, retention=timedelta(minutes=10), advance=timedelta(minutes=1)
    )
    assert (plain.entries, windowed.entries) == (100, 1_500)
    assert windowed.live_bytes / windowed.entries == plain.live_bytes / plain.entries + 20


def test_compression_and_waiting_compactions_change_the_disk_only() -> None:
    plain = estimate_state_size(keys=100, key_bytes=10, value_bytes=20, space_amplification=1)
    packed = estimate_state_size(keys=100, key_bytes=10, value_bytes=20, compression_ratio=0.25)
    assert plain.live_bytes == plain.disk_bytes == packed.live_bytes
    assert packed.disk_bytes == pytest.approx(plain.disk_bytes * 0.25 * 1.11)


def test_a_changelog_grows_by_its_active_segments_and_what_waits_for_the_cleaner() -> None:
    size = estimate_changelog_size(**LOG, segment_bytes=10_000)
    assert size.live_bytes == 100_000
    assert size.largest_bytes == 100_000 / 0.5 + 2 * 10_000


def test_a_changelog_that_expires_never_holds_more_than_its_retention_brings() -> None:
    size = estimate_changelog_size(**{**LOG, "live_records": 10**6}, retention_ms=3_600_000, segment_ms=1_000)
    assert (size.live_bytes, size.largest_bytes) == (1_000 * 3_600, 1_000 * 3_600 + 2 * 500)


def test_overhead_of_transactions_follows_from_their_number_and_not_from_that_of_records() -> None:
    overhead = calculate_eos_overhead(**EOS, transaction_s=0.05)
    assert overhead.transactions_per_second == 8
    assert overhead.markers_per_second == 24
    assert overhead.log_share == pytest.approx(24 * 78 / (24 * 78 + 10_000))
    assert overhead.time_share == pytest.approx(0.1)
    assert [overhead.mean_latency_s, overhead.largest_latency_s] == pytest.approx([0.3, 0.55])
    longer = calculate_eos_overhead(**{**EOS, "commit_interval_s": 5.0}, transaction_s=0.05)
    assert longer.log_share < overhead.log_share / 5
    assert longer.time_share == pytest.approx(0.01)


def test_a_recovery_restores_in_rounds_and_then_catches_up() -> None:
    recovery = estimate_recovery_time(
        changelog_bytes=8_000, tasks=4, restore_threads=2, restore_bytes_per_s=1_000, start_s=5, utilization=0.5
    )
    assert recovery.restore_s == 2 * (0.5 + 2)
    assert recovery.catch_up_s == pytest.approx(10)
    assert recovery.total_s == pytest.approx(20)


def test_a_standby_leaves_only_its_tail_to_restore() -> None:
    load: dict[str, Any] = {"changelog_bytes": 10**9, "update_bytes_per_s": 10**6, "restore_bytes_per_s": 10**7}
    alone, helped = (estimate_recovery_time(**load, standby=standby) for standby in (False, True))
    assert (alone.restore_bytes, helped.restore_bytes) == (10**9, 10**6)
    assert helped.restore_s == pytest.approx(0.6)
    assert estimate_recovery_time(**{**load, "changelog_bytes": 5}, standby=True).restore_bytes == 5


def test_an_application_without_state_has_nothing_to_restore() -> None:
    assert estimate_recovery_time(changelog_bytes=0, tasks=8, start_s=3).total_s == 3


def test_a_left_join_puts_every_record_out() -> None:
    inner, left = (estimate_join_performance(**JOIN, left=left) for left in (False, True))
    assert (inner.output_records_per_second, left.output_records_per_second) == (25_000, 50_000)
    assert left.capacity_records_per_second < inner.capacity_records_per_second


def test_a_table_that_outgrows_the_caches_slows_the_join_down() -> None:
    costs = JoinCosts(record_us=1, stored_lookup_us=9, cached_lookup_us=1, output_us=0)
    small, large = (
        estimate_join_performance(**{**JOIN, "table_keys": keys}, read_cache_bytes=100_000, costs=costs)
        for keys in (1_000, 4_000)
    )
    assert [small.cached_share, large.cached_share] == [1, 0.25]
    assert [small.record_us, large.record_us] == pytest.approx([2, 8])
    assert small.utilization == pytest.approx(0.1)


def test_more_cores_than_tasks_do_not_help() -> None:
    one, many = (estimate_join_performance(**JOIN, tasks=2, cores=cores) for cores in (2, 16))
    assert one.capacity_records_per_second == many.capacity_records_per_second


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: estimate_state_size(keys=-1, key_bytes=1, value_bytes=1), "keys"),
        (lambda: estimate_state_size(keys=1, key_bytes=1, value_bytes=1, compression_ratio=0), "compression_ratio"),
        (lambda: estimate_state_size(keys=1, key_bytes=1, value_bytes=1, retention=1), "retention and advance"),
        (lambda: estimate_changelog_size(**{**LOG, "partitions": 0}), "partitions"),
        (lambda: estimate_changelog_size(**LOG, dirty_ratio=1), "dirty_ratio"),
        (lambda: log_record_bytes(1, -1), "value_bytes"),
        (lambda: calculate_eos_overhead(**{**EOS, "commit_interval_s": 0}), "commit_interval_s"),
        (lambda: calculate_eos_overhead(**{**EOS, "bytes_per_second": float("inf")}), "bytes_per_second"),
        (lambda: estimate_recovery_time(changelog_bytes=1, restore_bytes_per_s=0), "restore_bytes_per_s"),
        (lambda: estimate_recovery_time(changelog_bytes=1, utilization=1), "never catch up"),
        (lambda: estimate_join_performance(**{**JOIN, "match_share": 1.1}), "match_share must be between 0 and 1"),
        (lambda: JoinCosts(record_us=0), "record_us"),
    ],
)
def test_senseless_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as caught:
        call()
    assert caught.value.remedy


def test_a_store_whose_windows_do_not_move_is_refused() -> None:
    with pytest.raises(TopologyError, match="Retention and advance"):
        estimate_state_size(keys=1, key_bytes=1, value_bytes=1, retention=1, advance=0)
