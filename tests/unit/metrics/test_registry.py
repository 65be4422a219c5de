from __future__ import annotations

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from millrace.errors import ConfigurationError
from millrace.metrics import (
    APPLICATION_STATES,
    END_TO_END_BUCKETS,
    LATENCY_BUCKETS,
    LATENESS_BUCKETS,
    METRICS,
    ApplicationMetrics,
    BucketCounts,
    DropReason,
    Phase,
    SilentDrop,
    StreamThreadTotals,
    TaskStatistics,
    TransactionOutcome,
    observe,
    records_lag,
)

ROW = TaskStatistics(
    task_id="0_1",
    batch_id=0,
    run_id="run-a",
    host="worker",
    pid=4,
    records_in=10,
    records_out={"alerts": 3},
    dropped={DropReason.LATE: 2},
    silently_dropped={SilentDrop.NULL_KEY: 4},
    dead_letters=1,
    transactions_committed=1,
    restored=100,
    restore_s=0.5,
    store_entries={"counts": 7},
    store_bytes={"counts": 4096},
    stream_times={"counts": 1_500},
    held_back={"counts": 2},
    held_back_bytes={"counts": 99},
    held_back_since={"counts": 1_250},
    lateness_max_ms=4,
    phases={Phase.READ: 0.25, Phase.COMMIT: 0.5},
    process_latency=observe([0.2], LATENCY_BUCKETS),
    commit_latency=observe([0.5], LATENCY_BUCKETS),
    end_to_end_latency=observe(np.array([0.3, 0.4, 400.0]), END_TO_END_BUCKETS),
    lateness=observe(np.array([0.0, 0.004]), LATENESS_BUCKETS),
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(metrics: ApplicationMetrics) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(metrics: ApplicationMetrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, frozenset({"application_id": "fraud", **labels}.items())))


def task_value(metrics: ApplicationMetrics, name: str, **labels: str) -> float | None:
    return value(metrics, name, subtopology="0", task="0_1", **labels)


@pytest.fixture
def metrics() -> ApplicationMetrics:
    return ApplicationMetrics("fraud")


def test_a_row_becomes_series_with_the_right_values(metrics: ApplicationMetrics) -> None:
    assert metrics.record(ROW)
    assert task_value(metrics, "millrace_stream_task_process_total") == 10
    assert task_value(metrics, "millrace_stream_task_batches_total") == 1
    assert task_value(metrics, "millrace_stream_topic_records_produced_total", topic="alerts") == 3
    assert task_value(metrics, "millrace_stream_task_dropped_records_total", reason="late") == 2
    assert task_value(metrics, "millrace_stream_task_silently_dropped_records_total", reason="null_key") == 4
    assert task_value(metrics, "millrace_stream_task_dead_letters_total") == 1
    assert task_value(metrics, "millrace_stream_task_transactions_total", outcome="committed") == 1
    assert task_value(metrics, "millrace_stream_task_restore_records_total") == 100
    assert task_value(metrics, "millrace_stream_task_restore_records_per_second") == 200
    assert task_value(metrics, "millrace_stream_task_restore_remaining_records") == 0
    assert task_value(metrics, "millrace_stream_state_estimate_num_keys", store="counts") == 7
    assert task_value(metrics, "millrace_stream_state_size_bytes", store="counts") == 4096
    assert task_value(metrics, "millrace_stream_task_stream_time_timestamp_seconds", store="counts") == 1.5
    assert task_value(metrics, "millrace_stream_state_held_back_results", store="counts") == 2
    assert task_value(metrics, "millrace_stream_state_held_back_bytes", store="counts") == 99
    assert task_value(metrics, "millrace_stream_state_held_back_since_timestamp_seconds", store="counts") == 1.25
    assert task_value(metrics, "millrace_stream_task_record_lateness_max_seconds") == 0.004
    assert task_value(metrics, "millrace_stream_task_phase_seconds_total", phase="commit") == 0.5


def test_the_time_of_what_waits_is_absent_while_nothing_waits(metrics: ApplicationMetrics) -> None:
    metrics.record(ROW)
    metrics.record(replace(ROW, batch_id=1, held_back={}, held_back_since={}))
    since = "millrace_stream_state_held_back_since_timestamp_seconds"
    assert task_value(metrics, since, store="counts") == 1.25
    metrics.record(replace(ROW, batch_id=2, held_back={"counts": 0}, held_back_bytes={"counts": 0}, held_back_since={}))
    assert task_value(metrics, "millrace_stream_state_held_back_results", store="counts") == 0
    assert not [name for name, _ in samples(metrics) if name == since]


def test_reasons_outcomes_and_phases_begin_at_zero_so_that_the_first_one_is_an_increase(
    metrics: ApplicationMetrics,
) -> None:
    metrics.record(ROW)
    for reason in set(DropReason) - {DropReason.LATE}:
        assert task_value(metrics, "millrace_stream_task_dropped_records_total", reason=reason) == 0
    assert task_value(metrics, "millrace_stream_task_silently_dropped_records_total", reason="before_window") == 0
    assert task_value(metrics, "millrace_stream_task_transactions_total", outcome="fenced") == 0
    assert task_value(metrics, "millrace_stream_task_phase_seconds_total", phase="store") == 0
    metrics.observe_batch(0, 0.4)
    assert value(metrics, "millrace_stream_query_restarts_total", subtopology="0") == 0


def test_a_batch_reported_twice_counts_once(metrics: ApplicationMetrics) -> None:
    assert metrics.record(ROW)
    before = metrics.exposition()
    assert not metrics.record(replace(ROW, records_in=99, pid=5))
    assert metrics.exposition() == before


def test_another_batch_task_or_run_counts_and_so_does_one_that_comes_out_of_order(metrics: ApplicationMetrics) -> None:
    assert metrics.record(replace(ROW, batch_id=5))
    assert metrics.record(replace(ROW, batch_id=3))
    assert metrics.record(replace(ROW, batch_id=3, run_id="run-b"))
    assert metrics.record(replace(ROW, batch_id=3, task_id="0_2"))
    assert task_value(metrics, "millrace_stream_task_process_total") == 30
    assert not metrics.record(replace(ROW, batch_id=3))


def test_a_repeated_batch_counts_once_however_long_ago_it_was(metrics: ApplicationMetrics) -> None:
    for batch_id in range(3_000):
        assert metrics.record(replace(ROW, batch_id=batch_id))
    for batch_id in (0, 1_000, 1_975, 1_976, 2_999):
        assert not metrics.record(replace(ROW, batch_id=batch_id))
    assert task_value(metrics, "millrace_stream_task_batches_total") == 3_000


def test_rows_from_many_threads_add_up_exactly(metrics: ApplicationMetrics) -> None:
    def report(worker: int) -> None:
        for batch_id in range(200):
            metrics.record(replace(ROW, batch_id=batch_id, task_id=f"0_{worker % 2}"))
            metrics.exposition()

    threads = [threading.Thread(target=report, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = samples(metrics)
    assert sum(number for (name, _), number in found.items() if name == "millrace_stream_task_process_total") == 4_000


def test_histograms_are_cumulative_with_sum_and_count(metrics: ApplicationMetrics) -> None:
    metrics.record(ROW)
    metrics.record(replace(ROW, batch_id=1))
    name = "millrace_stream_task_record_e2e_latency_seconds"
    buckets = [task_value(metrics, f"{name}_bucket", le=repr(bound)) for bound in END_TO_END_BUCKETS]
    expected = [2 * sum(value <= bound for value in (0.3, 0.4, 400.0)) for bound in END_TO_END_BUCKETS]
    assert buckets == expected
    assert task_value(metrics, f"{name}_bucket", le="+Inf") == 6
    assert task_value(metrics, f"{name}_count") == 6
    assert task_value(metrics, f"{name}_sum") == pytest.approx(801.4)


def test_a_row_with_other_buckets_is_refused_whole_and_may_come_again_corrected(metrics: ApplicationMetrics) -> None:
    metrics.record(ROW)
    before = metrics.exposition()
    with pytest.raises(ConfigurationError, match="version"):
        metrics.record(replace(ROW, batch_id=1, lateness=BucketCounts((1.0,), (0, 1), 2.0)))
    assert metrics.exposition() == before
    assert metrics.record(replace(ROW, batch_id=1))


def test_the_series_of_a_task_that_is_gone_disappear_and_no_others(metrics: ApplicationMetrics) -> None:
    metrics.record(ROW)
    metrics.record(replace(ROW, task_id="0_10"))
    metrics.set_lag(0, {("in", 1): 3})
    metrics.discard("0_1")
    left = samples(metrics)
    assert not [key for key in left if ("task", "0_1") in key[1]]
    assert [key for key in left if ("task", "0_10") in key[1]]
    assert value(metrics, "millrace_consumer_records_lag", subtopology="0", topic="in", partition="1") == 3
    metrics.keep_only({"0_0"})
    assert not [key for key in samples(metrics) if ("task", "0_10") in key[1]]


def test_the_lag_of_a_partition_that_is_gone_or_unknown_disappears(metrics: ApplicationMetrics) -> None:
    """Case M02."""
    metrics.set_lag(0, {("in", 0): 5, ("in", 1): 6, ("in", 2): records_lag(None, 29)})
    metrics.set_lag(1, {("other", 0): 1})

    def lag(partition: str) -> float | None:
        return value(metrics, "millrace_consumer_records_lag", subtopology="0", topic="in", partition=partition)

    assert (lag("0"), lag("1"), lag("2")) == (5, 6, None)
    metrics.set_lag(0, {("in", 0): 0})
    assert (lag("0"), lag("1"), lag("2")) == (0, None, None)
    assert value(metrics, "millrace_consumer_records_lag", subtopology="1", topic="other", partition="0") == 1


def test_lag_is_never_negative_and_unknown_without_an_offset() -> None:
    """Cases M01 and M02."""
    assert records_lag(130, 100) == 0
    assert records_lag(130, 140) == 10
    assert records_lag(None, 29) is None
    for marker in (-1, -2, -1001):
        assert records_lag(marker, 29) is None
        assert records_lag(5, marker) is None


def test_the_application_s_state_is_one_hot(metrics: ApplicationMetrics) -> None:
    metrics.set_application(state="REBALANCING", driver_epoch=3, paused=True)
    metrics.set_application(state="RUNNING", driver_epoch=4, paused=False)
    states = {state: value(metrics, "millrace_stream_application_state", state=state) for state in APPLICATION_STATES}
    assert states == {state: float(state == "RUNNING") for state in APPLICATION_STATES}
    assert value(metrics, "millrace_stream_driver_epoch") == 4
    assert value(metrics, "millrace_stream_paused") == 0
    with pytest.raises(ConfigurationError, match="ASLEEP"):
        metrics.set_application(state="ASLEEP", driver_epoch=4, paused=False)


def test_the_driver_counts_what_no_row_can_tell(metrics: ApplicationMetrics) -> None:
    metrics.count_transaction("0_1", TransactionOutcome.FENCED)
    metrics.count_query_restart(0)
    metrics.count_query_restart(0)
    metrics.observe_batch(0, 0.4)
    metrics.set_restore_progress("0_1", remaining=50, records_per_second=10.0)
    assert task_value(metrics, "millrace_stream_task_transactions_total", outcome="fenced") == 1
    assert value(metrics, "millrace_stream_query_restarts_total", subtopology="0") == 2
    assert value(metrics, "millrace_stream_query_batch_duration_seconds_count", subtopology="0") == 1
    assert task_value(metrics, "millrace_stream_task_restore_remaining_records") == 50
    assert task_value(metrics, "millrace_stream_task_restore_records_per_second") == 10


def test_every_metric_of_the_table_is_exposed_under_its_name_and_kind(metrics: ApplicationMetrics) -> None:
    metrics.record(ROW)
    metrics.set_application(state="RUNNING", driver_epoch=1, paused=False)
    metrics.set_lag(0, {("in", 0): 5})
    metrics.observe_batch(0, 0.4)
    metrics.set_input_ends(0, {("in", 0): (5, 7, 1.5)})
    metrics.set_heard(broker_answered_at=3.0, last_commits={0: 2.0})
    metrics.set_stream_threads(
        {"0": StreamThreadTotals(tasks=2, seconds={"poll": 1.5}, commits=3, commit_seconds=0.25, standby_lag=7)},
        wanted=2,
    )
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert len(families) == len(METRICS)
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.documentation == metric.help
        labels = set(family.samples[0].labels) - {"le"}
        assert labels == {"application_id", *metric.labels}


def test_stream_threads_that_are_gone_disappear(metrics: ApplicationMetrics) -> None:
    totals = StreamThreadTotals(tasks=2, seconds={"poll": 1.5, "idle": 4.0}, commits=3, commit_seconds=0.25)
    metrics.set_stream_threads({"0": totals, "1": totals}, wanted=2)
    metrics.set_stream_threads({"1": totals}, wanted=2)
    text = metrics.exposition().decode()
    assert 'millrace_stream_threads{application_id="fraud"} 1.0' in text
    assert 'millrace_stream_threads_wanted{application_id="fraud"} 2.0' in text
    assert 'millrace_stream_thread_tasks{application_id="fraud",thread="1"} 2.0' in text
    assert 'millrace_stream_thread_seconds_total{activity="idle",application_id="fraud",thread="1"} 4.0' in text
    assert 'thread="0"' not in text


def test_two_applications_in_one_process_do_not_mix() -> None:
    one, other = ApplicationMetrics("one"), ApplicationMetrics("other")
    one.record(ROW)
    assert samples(other) == {}


def test_no_sample_is_negative_or_not_a_number(metrics: ApplicationMetrics) -> None:
    metrics.record(replace(ROW, lateness_max_ms=-7))
    metrics.set_lag(0, {("in", 0): -30})
    assert all(number >= 0 and math.isfinite(number) for number in samples(metrics).values())
