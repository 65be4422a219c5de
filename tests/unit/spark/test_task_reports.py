from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from millrace.metrics import TransactionOutcome
from millrace.spark.restore_reports import RestoreReport
from millrace.spark.task_reports import LostTransaction, Report, TaskReporter, TaskReports
from millrace.state.replay import RestoreProgress

Heard = tuple[str, "queue.SimpleQueue[Report]"]


@contextmanager
def listening(bind: str, host: str) -> Iterator[Heard]:
    """The address of a driver that listens, and what it has heard."""
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    listener = TaskReports(bind, host, take_restore=reports.put, take_lost_transaction=reports.put)
    try:
        yield listener.address, reports
    finally:
        listener.close()


@pytest.fixture
def heard() -> Iterator[Heard]:
    with listening("127.0.0.1", "127.0.0.1") as it:
        yield it


@pytest.mark.parametrize(
    ("bind", "host"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "127.0.0.2"), ("127.0.0.1", "localhost")],
)
def test_a_driver_listens_on_one_address_and_is_told_at_another(bind: str, host: str) -> None:
    with listening(bind, host) as (address, reports):
        assert address.rpartition(":")[0] == host
        TaskReporter(address, "1_3").lost_transaction(TransactionOutcome.ABORTED)
        assert reports.get(timeout=10) == LostTransaction(task="1_3", outcome=TransactionOutcome.ABORTED)


def test_who_asks_at_another_address_of_the_host_is_not_heard() -> None:
    with listening("127.0.0.2", "127.0.0.2") as (address, reports):
        _, _, port = address.rpartition(":")
        TaskReporter(f"127.0.0.1:{port}", "1_3").lost_transaction(TransactionOutcome.ABORTED)
        TaskReporter(address, "0_0").lost_transaction(TransactionOutcome.FENCED)
        assert reports.get(timeout=10) == LostTransaction(task="0_0", outcome=TransactionOutcome.FENCED)
        assert reports.empty()


def test_a_driver_that_cannot_be_told_does_not_disturb_the_task() -> None:
    TaskReporter("no.such.host.invalid:9", "1_3").lost_transaction(TransactionOutcome.ABORTED)


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.FENCED])
def test_the_driver_hears_of_a_transaction_that_no_result_tells_of(heard: Heard, outcome: TransactionOutcome) -> None:
    address, reports = heard
    TaskReporter(address, "1_3").lost_transaction(outcome)
    assert reports.get(timeout=10) == LostTransaction(task="1_3", outcome=outcome)


def test_a_restore_tells_its_first_and_last_report_and_few_between(
    heard: Heard,
) -> None:
    address, reports = heard
    reporter = TaskReporter(address, "0_0")
    for records in (0, 1, 2, 3):
        reporter.restoring(
            RestoreProgress(
                store="counts",
                topic="app-counts-changelog",
                partition=0,
                records=records,
                position=records,
                remaining=3 - records,
                records_per_s=9.0,
            )
        )
    seen = [reports.get(timeout=10), reports.get(timeout=10)]
    assert seen == [
        RestoreReport(task="0_0", store="counts", records=records, remaining=3 - records, rate=9.0)
        for records in (0, 3)
    ]


def test_what_is_no_report_is_passed_over(heard: Heard) -> None:
    address, reports = heard
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for data in (b"noise", b'{"task": "0_0"}', b'{"task": "0_0", "outcome": "bored"}', b"[]"):
            sender.sendto(data, (host, int(port)))
    TaskReporter(address, "0_0").lost_transaction(TransactionOutcome.ABORTED)
    assert reports.get(timeout=10) == LostTransaction(task="0_0", outcome=TransactionOutcome.ABORTED)


def test_a_task_of_which_nobody_wants_to_hear_is_silent() -> None:
    TaskReporter("", "0_0").lost_transaction(TransactionOutcome.ABORTED)
