from __future__ import annotations

from millrace.spark.restore_reports import RestoreReport, RestoreTotals


def report(store: str, remaining: int, rate: float, task: str = "0_0") -> RestoreReport:
    return RestoreReport(task=task, store=store, records=1, remaining=remaining, rate=rate)


def test_the_stores_of_a_task_are_added_up_and_those_that_are_done_have_no_rate() -> None:
    totals = RestoreTotals()
    assert totals.add(report("a", 100, 10)) == (100, 10)
    assert totals.add(report("b", 50, 5)) == (150, 15)
    assert totals.add(report("c", 7, 1, task="0_1")) == (7, 1)
    assert totals.add(report("a", 0, 12)) == (50, 5)
    totals.clear()
    assert totals.add(report("b", 40, 5)) == (40, 5)
