from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.driver.coordinator.assignment import Candidate, assign, exchange_for_load
from millrace.spark.stream_threads.messages import HeldState, HeldTask

STATES = st.sampled_from(HeldState)


def candidate(name: str, **held: HeldState | tuple[HeldState, int]) -> Candidate:
    found = {}
    for task, state in held.items():
        kind, position = state if isinstance(state, tuple) else (state, 0)
        name_of_task = task.removeprefix("t")
        found[name_of_task] = HeldTask(name_of_task, kind, position)
    return Candidate(name, found)


def tasks_of(count: int, sub_topologies: int = 1) -> dict[str, float]:
    return {f"{number % sub_topologies}_{number // sub_topologies}": 0.0 for number in range(count)}


@st.composite
def worlds(draw, most_tasks=24, most_threads=6):
    tasks = {
        task: draw(st.floats(0, 1)) for task in tasks_of(draw(st.integers(0, most_tasks)), draw(st.integers(1, 3)))
    }
    names = [f"h{number % 2}/{number}" for number in range(draw(st.integers(1, most_threads)))]
    held = st.dictionaries(
        st.sampled_from(sorted(tasks)) if tasks else st.nothing(), st.tuples(STATES, st.integers(0, 100))
    )
    candidates = [
        Candidate(name, {task: HeldTask(task, *state) for task, state in draw(held).items()}) for name in names
    ]
    owners = st.sampled_from([*names, "gone", None])
    current = {task: owner for task in tasks if (owner := draw(owners)) is not None}
    return tasks, candidates, current


@given(worlds())
def test_every_task_has_exactly_one_thread_and_counts_differ_by_one_at_most(world):
    tasks, candidates, current = world
    assigned = assign(tasks, candidates, current)
    assert assigned.keys() == tasks.keys()
    counts = Counter({each.thread: 0 for each in candidates})
    counts.update(assigned.values())
    assert counts.keys() == {each.thread for each in candidates}
    assert max(counts.values()) - min(counts.values()) <= 1


@given(worlds())
def test_what_is_assigned_stays(world):
    tasks, candidates, current = world
    assigned = assign(tasks, candidates, current)
    assert assign(tasks, candidates, assigned) == assigned
    assert assign(tasks, list(reversed(candidates)), assigned) == assigned


@given(worlds())
def test_no_more_tasks_move_than_the_balance_asks_for(world):
    tasks, candidates, current = world
    assigned = assign(tasks, candidates, current)
    names = [each.thread for each in candidates]
    counts = sorted((sum(owner == name for owner in current.values()) for name in names), reverse=True)
    least, more = divmod(len(tasks), len(names))
    # What is open in a process without an owner counts there too, so that it may push one more out of it.
    opened = sum(
        current.get(task) not in names
        and any(task in each.held and each.held[task].state is HeldState.OPEN for each in candidates)
        for task in tasks
    )
    moved = sum(assigned[task] != owner for task, owner in current.items() if owner in names)
    bound = sum(max(0, count - least - (position < more)) for position, count in enumerate(counts))
    assert moved <= bound + opened


@given(worlds(most_tasks=5, most_threads=3))
def test_few_moves_are_the_fewest_of_all_balanced_assignments(world):
    tasks, candidates, current = world
    names = [each.thread for each in candidates]
    bare = [Candidate(name) for name in names]

    def moves(assigned):
        return sum(assigned[task] != owner for task, owner in current.items() if owner in names)

    def is_balanced(assigned):
        counts = [sum(owner == name for owner in assigned.values()) for name in names]
        return max(counts) - min(counts) <= 1

    everything = (dict(zip(tasks, owners, strict=True)) for owners in product(names, repeat=len(tasks)))
    fewest = min(moves(each) for each in everything if is_balanced(each))
    assert moves(assign(tasks, bare, current)) == fewest


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 4))
def test_a_thread_that_comes_gets_its_part_and_nothing_else_moves(tasks, threads, sub_topologies):
    world = tasks_of(tasks, sub_topologies)
    names = [Candidate(f"t{number}") for number in range(threads)]
    before = assign(world, names, {})
    after = assign(world, [*names, Candidate("new")], before)
    moved = [task for task in world if before[task] != after[task]]
    assert all(after[task] == "new" for task in moved)
    assert len(moved) <= tasks // (threads + 1) + 1


@given(st.integers(1, 64), st.integers(2, 8))
def test_only_the_tasks_of_a_thread_that_went_move(tasks, threads):
    world = tasks_of(tasks)
    names = [Candidate(f"t{number}") for number in range(threads)]
    before = assign(world, names, {})
    after = assign(world, names[1:], before)
    assert all(after[task] == owner for task, owner in before.items() if owner != "t0")


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 5))
def test_at_first_the_tasks_of_each_sub_topology_are_spread(partitions, threads, sub_topologies):
    world = tasks_of(partitions * sub_topologies, sub_topologies)
    assigned = assign(world, [Candidate(f"t{number}") for number in range(threads)], {})
    for number in range(sub_topologies):
        counts = Counter({f"t{thread}": 0 for thread in range(threads)})
        counts.update(owner for task, owner in assigned.items() if task.startswith(f"{number}_"))
        assert max(counts.values()) - min(counts.values()) <= 1


class TestWhereStateIs:
    def test_what_a_process_has_open_goes_there(self):
        threads = [candidate("a", t0_1=HeldState.OPEN), candidate("b", t0_0=HeldState.OPEN)]
        assert assign(tasks_of(2), threads, {}) == {"0_0": "b", "0_1": "a"}

    @pytest.mark.parametrize(
        ("nearer", "farther"),
        [
            ((HeldState.OPEN, 1), (HeldState.DISK, 100)),
            ((HeldState.OPEN, 1), (HeldState.STANDBY, 100)),
            ((HeldState.DISK, 100), (HeldState.STANDBY, 100)),
            ((HeldState.STANDBY, 100), (HeldState.DISK, 99)),
        ],
    )
    def test_open_comes_first_then_what_is_nearer_to_the_end_then_disk(self, nearer, farther):
        threads = [candidate("a", t0_0=farther), candidate("b", t0_0=nearer)]
        assert assign({"0_0": 0.0}, threads, {}) == {"0_0": "b"}

    def test_of_two_copies_the_one_that_is_nearer_to_the_end(self):
        threads = [candidate("a", t0_0=(HeldState.STANDBY, 10)), candidate("b", t0_0=(HeldState.STANDBY, 11))]
        assert assign({"0_0": 0.0}, threads, {}) == {"0_0": "b"}

    def test_who_has_it_comes_before_who_has_it_open(self):
        threads = [candidate("a", t0_0=HeldState.OPEN), candidate("b")]
        assert assign({"0_0": 0.0}, threads, {"0_0": "b"}) == {"0_0": "b"}

    def test_a_thread_with_too_many_gives_away_a_part_of_each_sub_topology(self):
        tasks = {**{f"0_{number}": 0.0 for number in range(8)}, **{f"1_{number}": 0.0 for number in range(4)}}
        for held in ({}, {f"t1_{number}": HeldState.STANDBY for number in range(4)}):
            threads = [candidate("a"), candidate("b", **held)]
            after = assign(tasks, threads, dict.fromkeys(tasks, "a"))
            given = Counter(task[0] for task, name in after.items() if name == "b")
            assert given == {"0": 4, "1": 2}

    def test_a_thread_with_too_many_gives_away_what_has_state_elsewhere(self):
        threads = [candidate("a"), candidate("b", t0_2=HeldState.STANDBY)]
        after = assign(tasks_of(4), threads, dict.fromkeys(["0_0", "0_1", "0_2"], "a"))
        assert after["0_2"] == "b"

    def test_a_task_that_only_one_thread_is_near_to_is_placed_before_one_that_has_a_choice(self):
        disk = HeldState.DISK
        threads = [candidate("a", t0_0=disk, t0_1=disk), candidate("b", t0_0=disk)]
        assert assign(tasks_of(2), threads, {}) == {"0_0": "b", "0_1": "a"}


def test_without_threads_nothing_is_assigned():
    assert assign(tasks_of(3), [], {"0_0": "a"}) == {}


class TestLoad:
    def exchange(self, loads: dict[str, float], assigned: dict[str, str]) -> dict[str, str]:
        return exchange_for_load(loads, assigned, [Candidate(name) for name in ("a", "b")])

    def test_two_heavy_tasks_of_a_thread_are_parted(self):
        loads = {"0_0": 0.4, "0_1": 0.4, "0_2": 0.1, "0_3": 0.1}
        changed = self.exchange(loads, {"0_0": "a", "0_1": "a", "0_2": "b", "0_3": "b"})
        assert sorted(changed.values()) == ["a", "b"]
        assert {loads[task] for task in changed} == {0.4, 0.1}

    def test_an_even_load_is_left_alone(self):
        loads = {"0_0": 0.30, "0_1": 0.25, "0_2": 0.28, "0_3": 0.22}
        assert self.exchange(loads, {"0_0": "a", "0_1": "a", "0_2": "b", "0_3": "b"}) == {}

    def test_one_task_that_is_all_the_load_is_left_where_it_is(self):
        assert self.exchange({"0_0": 0.9, "0_1": 0.0}, {"0_0": "a", "0_1": "b"}) == {}

    def test_nothing_measured_moves_nothing(self):
        assert self.exchange({}, {"0_0": "a", "0_1": "b"}) == {}

    @given(worlds(most_tasks=12, most_threads=4))
    def test_an_exchange_keeps_the_counts_lowers_the_highest_load_and_comes_to_an_end(self, world):
        loads, candidates, _ = world
        assigned = assign(loads, candidates, {})

        def highest():
            busy = Counter({each.thread: 0.0 for each in candidates})
            for task, owner in assigned.items():
                busy[owner] += loads[task]
            return max(busy.values())

        for _ in range(100):
            before = highest()
            changed = exchange_for_load(loads, assigned, candidates)
            if not changed:
                break
            assigned |= changed
            assert highest() <= before + 1e-9
            counts = Counter({each.thread: 0 for each in candidates})
            counts.update(assigned.values())
            assert max(counts.values()) - min(counts.values()) <= 1
            assert assign(loads, candidates, assigned) == assigned, "the next assignment keeps it"
        else:
            pytest.fail("exchanges go on for ever")
