"""Which thread keeps a standby copy: what holds for any threads, disks and tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace.driver.coordinator.assignment import Candidate
from millrace.driver.coordinator.standby_assignment import assign_standbys
from millrace.spark.stream_threads.messages import HeldState, HeldTask


@st.composite
def worlds(draw):
    names = [f"t{number}" for number in range(draw(st.integers(1, 6)))]
    disk_of = {name: ("h", f"/{draw(st.integers(0, 3))}") for name in names}
    tasks = [f"0_{number}" for number in range(draw(st.integers(0, 8)))]
    owners = {task: draw(st.one_of(st.none(), st.sampled_from(sorted(disk_of.values())))) for task in tasks}
    current = {task: draw(st.sets(st.sampled_from([*names, "gone"]))) for task in tasks}
    return owners, [Candidate(name) for name in names], disk_of, current, draw(st.integers(0, 3))


@given(worlds())
def test_copies_are_on_disks_of_their_own_as_many_as_there_can_be(world):
    owners, candidates, disk_of, current, replicas = world
    assigned = assign_standbys(owners, candidates, disk_of, current, replicas=replicas)
    for task, names in assigned.items():
        disks = [disk_of[name] for name in names]
        assert len(set(disks)) == len(disks)
        assert owners[task] not in disks
        if owners[task] is not None:
            assert len(names) == min(replicas, len(set(disk_of.values()) - {owners[task]}))
        else:
            assert names <= set(current[task])


@given(worlds())
def test_who_keeps_a_copy_keeps_it_for_as_long_as_that_is_of_use(world):
    owners, candidates, disk_of, current, replicas = world
    once = assign_standbys(owners, candidates, disk_of, current, replicas=replicas)
    assert assign_standbys(owners, candidates, disk_of, once, replicas=replicas) == once


def test_a_new_copy_begins_where_most_of_the_state_is():
    held = [{}, {"0_0": HeldTask("0_0", HeldState.DISK, 7)}, {"0_0": HeldTask("0_0", HeldState.STANDBY, 9)}]
    candidates = [Candidate(f"t{number}", each) for number, each in enumerate(held)]
    disk_of = {each.thread: ("h", each.thread) for each in candidates}
    owners = {"0_0": ("h", "elsewhere")}
    assert assign_standbys(owners, candidates, disk_of, {}, replicas=1) == {"0_0": {"t2"}}
    assert assign_standbys(owners, candidates, disk_of, {}, replicas=2) == {"0_0": {"t1", "t2"}}
