"""How many threads an epoch has, by what Spark has and what the application asks it for."""

from __future__ import annotations

import pytest

from millrace.spark.stream_threads.slots import EpochSize, Slots, epoch_size, wanted_slots

CLUSTER = {"spark.cores.max": "6", "spark.executor.cores": "2"}


@pytest.mark.parametrize(
    ("threads", "slots", "tasks", "size"),
    [
        # All slots that the application asks for, whether its executors are there yet or not.
        (None, Slots(0, 4), 8, EpochSize(4, 4)),
        (None, Slots(6, 0), 8, EpochSize(6, 6)),
        # No more than there are tasks, and one at least.
        (None, Slots(4, 4), 3, EpochSize(3, 3)),
        (None, Slots(0, 0), 3, EpochSize(1, 1)),
        (2, Slots(4, 4), 8, EpochSize(2, 2)),
        # Those beyond the slots wait in Spark: a slot that comes later is taken at once.
        (4, Slots(1, 2), 8, EpochSize(4, 4)),
        # No slot comes to a local master, so none is waited for.
        (4, Slots(2, 2, is_fixed=True), 8, EpochSize(4, 2)),
        (1, Slots(2, 2, is_fixed=True), 8, EpochSize(1, 1)),
    ],
)
def test_an_epoch_has_the_threads_that_are_wanted(
    threads: int | None, slots: Slots, tasks: int, size: EpochSize
) -> None:
    assert epoch_size(threads, slots, tasks) == size


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({}, 0),
        (CLUSTER, 6),
        ({**CLUSTER, "spark.task.cpus": "2"}, 3),
        ({"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "3", "spark.task.cpus": "2"}, 3),
        # What dynamic allocation may grow to, whatever it begins with.
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "5",
                "spark.executor.instances": "1",
                "spark.executor.cores": "2",
            },
            10,
        ),
    ],
)
def test_the_slots_of_a_cluster_are_those_that_the_application_asks_for(settings: dict[str, str], slots: int) -> None:
    assert wanted_slots(settings) == slots
