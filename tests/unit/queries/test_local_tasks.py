"""Reading a task's database from another state object while it is written, wiped and opened again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from millrace.queries.local_tasks import LocalTasks
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Entry, Lookup, Operation, StoreAnswer, StoreQuery, TaskId, View
from millrace.state import TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.damage import flip_middle
from tests.unit.state.specs import key_value, versioned, window

SESSIONS = StoreSpec(name="ses", kind=StoreKind.SESSION, retention_ms=120_000)
STORES = (key_value(), window(), SESSIONS, versioned())
TASK = (0, 3)


class World:
    """A task that writes, and a reader that has its own view of the files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state: TaskState | None = None
        self.tasks = LocalTasks(str(directory), "app", {spec.name: spec for spec in STORES})
        self.commits = 0
        self.open()

    def open(self, stores: Sequence[StoreSpec] = STORES) -> None:
        self.state = TaskState.open(self.directory / "app" / "0_3", stores)

    def commit(self) -> None:
        assert self.state is not None
        self.commits += 1
        self.state.drain_changelog()
        self.state.commit(TaskPosition(inputs={("in", 3): self.commits}))

    def put(self, entries: Mapping[bytes, bytes | None], timestamp: int = 5) -> None:
        assert self.state is not None
        stamps = np.full(len(entries), timestamp, dtype=np.int64)
        self.state.key_value_store("kv").put_many(list(entries), list(entries.values()), stamps)
        self.commit()

    def ask(self, store: str, operation: Operation, **fields: Any) -> StoreAnswer:
        return self.tasks.answer(TASK, StoreQuery(store=store, operation=operation, **fields))

    def look_up(
        self, store: str, *keys: bytes, as_of: int | None = None, task: TaskId = TASK, standby: bool = False
    ) -> tuple[list[bytes | None], View]:
        found, view = self.tasks.look_up(Lookup(task, store, keys, as_of, standby))
        return [None if entry is None else entry.value for entry in found], view

    def value(self, key: bytes) -> bytes | None:
        [value], _ = self.look_up("kv", key)
        return value

    def pages(self, store: str, operation: Operation, **fields: Any) -> list[Entry]:
        found: list[Entry] = []
        after: bytes | None = None
        while True:
            answer = self.ask(store, operation, after=after, **fields)
            found += answer.entries
            after = answer.after
            if after is None:
                return found

    def close(self) -> None:
        self.tasks.close()
        if self.state is not None:
            self.state.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


class FlushesMeanwhile:
    """A secondary's database whose primary writes and flushes while the first catching up is between its two halves."""

    def __init__(self, database: Any, world: World) -> None:
        self._database = database
        self._world = world
        self.caught_up = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def try_catch_up_with_primary(self) -> None:
        self._database.try_catch_up_with_primary()
        self.caught_up += 1
        if self.caught_up == 1:
            assert self._world.state is not None
            self._world.put({b"k": b"2"})
            assert self._world.state._database is not None
            self._world.state._database.flush(["kv"])


def test_what_is_flushed_while_it_catches_up_is_caught_up_too(world: World) -> None:
    """Case Q01: the log may have the commit of a restored store before the manifest has the store's files."""
    world.put({b"k": b"1"})
    world.tasks.catch_up()
    [secondary] = world.tasks._secondaries.values()
    world.put({b"other": b"1"})
    secondary._database = cast(Any, FlushesMeanwhile(secondary._database, world))
    world.tasks.catch_up()
    [value], view = world.look_up("kv", b"k")
    assert (value, view.position.inputs) == (b"2", {("in", 3): world.commits})


def test_what_was_flushed_before_it_was_read_is_not_hidden_by_what_was_read_before(world: World) -> None:
    world.put({b"k": b"1"})
    world.tasks.catch_up()
    assert world.value(b"k") == b"1"
    world.put({b"k": b"2"})
    assert world.state is not None
    assert world.state._database is not None
    world.state._database.flush(["kv"])
    world.tasks.catch_up()
    assert world.value(b"k") == b"2"
    # A commit that does not write this store.
    world.commit()
    world.tasks.catch_up()
    [value], view = world.look_up("kv", b"k")
    assert (value, view.position.inputs) == (b"2", {("in", 3): 3})


def test_a_damaged_block_refuses_the_answer_that_needs_it_and_is_never_taken_for_the_end(world: World) -> None:
    keys = [b"%06d" % number for number in range(20_000)]
    world.put({key: key * 8 for key in keys})
    assert world.state is not None
    world.state.close()
    world.open()  # what was in the write-ahead log comes into a table
    assert flip_middle(world.directory / "app" / "0_3") == 1
    questions: list[dict[str, Any]] = [
        {"operation": Operation.ALL},
        {"operation": Operation.RANGE, "from_key": keys[5_000], "to_key": keys[-1]},
        {"operation": Operation.PREFIX, "prefix": b"0"},
        {"operation": Operation.ALL, "after": keys[5_000]},
    ]
    for fields in questions:
        world.tasks.catch_up()
        with pytest.raises(QueryRefusedError, match=r"cannot be read at this moment: .*checksum mismatch") as refused:
            world.ask("kv", limit=30_000, **fields)
        assert refused.value.reason is Reason.RESTORING
    world.tasks.catch_up()
    answer = world.ask("kv", Operation.RANGE, from_key=keys[0], to_key=keys[9])
    assert [entry.key for entry in answer.entries] == keys[:10]


def test_commits_are_seen_after_a_catch_up_and_uncommitted_writes_never(world: World) -> None:
    world.put({b"a": b"1"})
    world.tasks.catch_up()
    assert world.value(b"a") == b"1"
    assert world.look_up("kv", b"a")[1].position.inputs == {("in", 3): 1}
    world.put({b"a": b"2", b"b": b"3"})
    assert (world.value(b"a"), world.value(b"b")) == (b"1", None)
    assert world.state is not None
    world.state.key_value_store("kv").put_many([b"a"], [b"uncommitted"], np.array([9]))
    world.tasks.catch_up()
    assert (world.value(b"a"), world.value(b"b")) == (b"2", b"3")
    assert world.look_up("kv", b"a")[1].position.inputs == {("in", 3): 2}


def test_the_reader_takes_no_lock(world: World) -> None:
    world.put({b"a": b"1"})
    world.tasks.catch_up()
    assert world.state is not None
    world.state.close()
    world.open()  # would be refused if anybody held the directory or the database
    world.put({b"a": b"2"})
    world.tasks.catch_up()
    assert world.value(b"a") == b"2"


def test_pages_of_ranges_and_prefixes_go_on_where_the_last_one_ended(world: World) -> None:
    world.put({b"k%03d" % number: b"v" for number in range(25)} | {b"other": b"v"})
    world.tasks.catch_up()
    everything = [b"k%03d" % number for number in range(25)]
    assert [entry.key for entry in world.pages("kv", Operation.ALL, limit=7)] == [*everything, b"other"]
    assert [entry.key for entry in world.pages("kv", Operation.PREFIX, prefix=b"k", limit=5)] == everything
    found = world.pages("kv", Operation.RANGE, from_key=b"k005", to_key=b"k009", limit=2)
    assert [entry.key for entry in found] == everything[5:10]


def test_pages_meet_every_key_that_stays_once_while_others_come_and_go(world: World) -> None:
    stays = [b"k%03d" % number for number in range(0, 60, 2)]
    world.put(dict.fromkeys(stays, b"v"))
    found: list[bytes] = []
    after: bytes | None = None
    for turn in range(100):
        world.put({b"k%03d" % (2 * turn + 1): b"new", b"k%03d" % (59 - 2 * turn if turn < 30 else 1): None})
        world.tasks.catch_up()
        answer = world.ask("kv", Operation.ALL, limit=4, after=after)
        found += [entry.key for entry in answer.entries]
        after = answer.after
        if after is None:
            break
    assert [key for key in found if key in stays] == stays
    assert len(found) == len(set(found))


def test_windows_are_fetched_by_key_and_time_without_expired_ones(world: World) -> None:
    assert world.state is not None
    starts = np.array([0, 60_000, 120_000, 240_000], dtype=np.int64)
    world.state.window_store("win").put_many([b"a"] * 4, starts, [b"0", b"1", b"2", b"4"], starts + 7)
    world.state.window_store("win").put_many([b"ab"], starts[3:], [b"x"], starts[3:])
    world.commit()
    world.tasks.catch_up()
    # Retention is two minutes behind the newest start: 120,000 has just expired.
    assert world.pages("win", Operation.FETCH, key=b"a", limit=1) == [Entry(b"a", b"4", 240_007, 240_000, 300_000)]
    found = world.pages("win", Operation.FETCH_ALL, limit=1)
    assert [(entry.key, entry.start) for entry in found] == [(b"a", 240_000), (b"ab", 240_000)]
    assert world.pages("win", Operation.FETCH, key=b"a", to_time=239_999) == []


def test_windows_of_several_segments_are_paged_in_order(world: World) -> None:
    assert world.state is not None
    starts = np.arange(0, 120_000, 10_000, dtype=np.int64)
    values: list[bytes | None] = [b"%d" % start for start in starts.tolist()]
    for key in (b"a", b"b"):
        world.state.window_store("win").put_many([key] * len(starts), starts, values, starts)
    world.commit()
    world.tasks.catch_up()
    fetched = world.pages("win", Operation.FETCH, key=b"a", limit=3)
    assert [entry.start for entry in fetched] == starts.tolist()
    paged, whole = world.pages("win", Operation.ALL, limit=5), world.ask("win", Operation.ALL, limit=1000).entries
    assert paged == whole
    assert len(paged) == 24


def test_sessions_are_fetched_by_key_and_paged(world: World) -> None:
    assert world.state is not None
    store = world.state.session_store("ses")
    store.put_many([b"a", b"a", b"ab"], [0, 50, 10], [20, 70_000, 30], [b"1", b"2", b"3"], np.array([20, 70_000, 30]))
    world.commit()
    world.tasks.catch_up()
    expected = [Entry(b"a", b"1", 20, 0, 20), Entry(b"a", b"2", 70_000, 50, 70_000)]
    assert world.pages("ses", Operation.FETCH, key=b"a", limit=1) == expected
    assert world.pages("ses", Operation.FETCH, key=b"a", to_time=100) == expected[:1]
    assert {entry.key for entry in world.pages("ses", Operation.ALL, limit=1)} == {b"a", b"ab"}


def test_versions_are_told_as_of_a_time(world: World) -> None:
    assert world.state is not None
    world.state.versioned_store("ver").put_many([b"a"] * 3, [b"1", b"2", b"3"], np.array([10, 20, 30]))
    world.state.versioned_store("ver").put_many([b"b"], [b"4"], np.array([30]))
    world.commit()
    world.tasks.catch_up()

    def as_of(time: int | None) -> list[bytes | None]:
        return world.look_up("ver", b"a", as_of=time)[0]

    assert [as_of(None), as_of(25), as_of(20), as_of(9)] == [[b"3"], [b"2"], [b"2"], [None]]
    history = world.pages("ver", Operation.VERSIONS, key=b"a", limit=1)
    assert [(entry.timestamp, entry.valid_to) for entry in history] == [(10, 20), (20, 30), (30, None)]
    assert [entry.value for entry in world.pages("ver", Operation.ALL, limit=1)] == [b"3", b"4"]


def test_a_wiped_store_is_restoring_and_not_empty(world: World) -> None:
    """Case Q01: until the position is there again, nobody is told that a key does not exist."""
    world.put({b"k42": b"1"})
    world.tasks.catch_up()
    assert world.state is not None
    world.state.wipe()
    # Without a catch-up the old state is still whole.
    assert world.value(b"k42") == b"1"
    world.state.restore_batch("kv", [b"k1"], [b"1"], np.array([1]))
    for _ in range(2):
        world.tasks.catch_up()
        with pytest.raises(QueryRefusedError) as refused:
            world.value(b"k42")
        assert refused.value.reason in {Reason.RESTORING, Reason.NOT_HERE}
    world.put({b"k42": b"2"})
    world.tasks.catch_up()
    assert world.value(b"k42") == b"2"
    assert world.value(b"zz") is None


def test_a_database_with_another_store_is_opened_anew(world: World) -> None:
    world.tasks.close()
    assert world.state is not None
    world.state.close()
    fresh = World(world.directory / "other")
    assert fresh.state is not None
    fresh.state.close()
    try:
        fresh.tasks = LocalTasks(str(fresh.directory), "app", {spec.name: spec for spec in (*STORES, key_value("new"))})
        fresh.open()
        fresh.put({b"a": b"1"})
        fresh.tasks.catch_up()
        with pytest.raises(QueryRefusedError) as refused:
            fresh.look_up("new", b"n")
        assert refused.value.reason is Reason.RESTORING
        assert fresh.state is not None
        fresh.state.close()
        fresh.open((*STORES, key_value("new")))
        assert fresh.state is not None
        fresh.state.key_value_store("new").put_many([b"n"], [b"1"], np.array([1]))
        fresh.commit()
        fresh.tasks.catch_up()
        assert fresh.look_up("new", b"n")[0] == [b"1"]
        assert fresh.value(b"a") == b"1"
    finally:
        fresh.close()


def test_a_standby_copy_answers_only_who_asks_for_it_until_the_task_itself_has_it(world: World) -> None:
    copy = TaskState.open(world.directory / "app" / "0_4", STORES)
    try:
        copy.restore_batch("kv", [b"a"], [b"copied"], np.array([1]))
        copy.commit(TaskPosition(changelogs={"kv": 1}, written_at_ms=5, standby=True))
        world.tasks.catch_up()
        everything = StoreQuery(store="kv", operation=Operation.ALL)
        for ask in (lambda: world.tasks.answer((0, 4), everything), lambda: world.look_up("kv", b"a", task=(0, 4))):
            with pytest.raises(QueryRefusedError) as refused:
                ask()
            assert refused.value.reason is Reason.NOT_HERE
        answer = world.tasks.answer((0, 4), everything, standby=True)
        assert ([entry.value for entry in answer.entries], answer.view.standby) == ([b"copied"], True)
        values, view = world.look_up("kv", b"a", task=(0, 4), standby=True)
        assert (values, view.standby) == ([b"copied"], True)
        copy.commit(TaskPosition(inputs={("in", 4): 1}, changelogs={"kv": 1}, written_at_ms=6))
        world.tasks.catch_up()
        values, view = world.look_up("kv", b"a", task=(0, 4))
        assert (values, view.standby) == ([b"copied"], False)
    finally:
        copy.close()


def test_a_directory_that_is_gone_is_not_here(world: World) -> None:
    with pytest.raises(QueryRefusedError) as refused:
        world.look_up("kv", b"a", task=(7, 7))
    assert refused.value.reason is Reason.NOT_HERE


def test_many_keys_are_looked_up_at_one_commit(world: World) -> None:
    world.put({b"a": b"1", b"b": b"2"})
    world.tasks.catch_up()
    first = world.look_up("kv", b"b", b"none", b"a")
    assert first[0] == [b"2", None, b"1"]
    # The same object until the next catch-up: the position is told once.
    assert world.look_up("kv", b"a")[1] is first[1]
    world.tasks.catch_up()
    assert world.look_up("kv", b"a")[1] is not first[1]


def test_every_answer_is_that_of_one_commit_while_the_task_writes_at_full_speed(world: World) -> None:
    """All keys have the number of the commit as their value, and the position says which commit that is."""
    keys = [b"k%04d" % number for number in range(500)]
    world.put(dict.fromkeys(keys, b"%d" % 1))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            world.put(dict.fromkeys(keys, b"%d" % (world.commits + 1)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen: set[int] = set()
        while len(seen) < 30:
            world.tasks.catch_up()
            answer = world.ask("kv", Operation.ALL, limit=1_000)
            commit = answer.view.position.inputs["in", 3]
            assert {entry.value for entry in answer.entries} == {b"%d" % commit}
            assert len(answer.entries) == len(keys)
            seen.add(commit)
    finally:
        stop.set()
        writer.join()
