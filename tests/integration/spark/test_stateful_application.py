"""A stateful application under each guarantee: its topics, event time, and a life after its state directory is lost.

Both applications start side by side, live through a first life, are stopped and lose their state directories; the tests
look at their second life.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from millrace.kafka.offsets import begin_offsets
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.records import ReadRecord, Record

GUARANTEES = ("exactly_once_v2", "at_least_once")
DAY_MS = 86_400_000


@dataclass
class Lives:
    """An application and its topics, and what they were like at the end of the first life."""

    world: World
    application: Application
    sums_changelog: list[ReadRecord] = field(default_factory=list)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)

    def changelog(self, store: str) -> str:
        return f"{self.application.application_id}-{store}-changelog"


@pytest.fixture(scope="module")
def both(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Lives]]:
    lives = {}
    for guarantee in GUARANTEES:
        world = World(bootstrap_servers, f"w{uuid4().hex[:8]}", tmp_path_factory.mktemp("applications"))
        world.create("numbers", "events", "sums", "tiny-windows", "groups")
        config = {
            "processing.guarantee": guarantee,
            "commit.interval.ms": 300,
            "repartition.purge.interval.ms": 500,
        }
        lives[guarantee] = Lives(world, world.application("stateful", config=config))
    try:
        for each in lives.values():
            each.world.send("numbers", Record(b"k", number(7), 10))
            each.world.send(
                "events",
                Record(b"a", b'{"group":"x"}', 1_000),
                Record(b"n", b'{"group":"x","at":-1}', 1_500),
                Record(b"b", b'{"group":"x"}', 2_000),
                Record(b"n", b'{"group":"x","at":-1}', 2_500),
            )
            each.application.start()
        for each in lives.values():
            each.application.wait_until_running()
        for each in lives.values():
            each.application.wait_until_caught_up()
            each.committed = each.application.committed()
            each.sums_changelog = each.world.read_any(each.changelog("sums"))
            assert each.application.stop() == 0
            shutil.rmtree(each.application.state_directory)
            each.application.start()
        for each in lives.values():
            each.application.wait_until_running()
        yield lives
        for each in lives.values():
            each.application.stop()
    finally:
        for each in lives.values():
            each.world.close()


@pytest.fixture(params=GUARANTEES)
def lives(request: pytest.FixtureRequest, both: dict[str, Lives]) -> Lives:
    return both[request.param]


def number(value: int) -> bytes:
    return struct.pack(">q", value)


def totals(records: list[ReadRecord]) -> dict[bytes, list[int]]:
    """The numbers of each key, in order."""
    found: dict[bytes, list[int]] = {}
    for record in records:
        assert record.key is not None
        assert record.value is not None
        found.setdefault(record.key, []).append(struct.unpack(">q", record.value)[0])
    return found


def last_counts(records: list[ReadRecord]) -> dict[tuple[str, int], int]:
    """The last count of each window, by key and start."""
    counts = {}
    for key, values in totals(records).items():
        counts[key[:-8].decode(), struct.unpack(">q", key[-8:])[0]] = values[-1]
    return counts


def test_a_changelog_of_a_single_record_is_restored(lives: Lives) -> None:
    """Case S01, under both guarantees."""
    assert [record.value for record in lives.sums_changelog] == [number(7)]
    lives.world.send("numbers", Record(b"k", number(1), 10))
    lives.application.wait_until_caught_up()

    assert totals(lives.world.read("sums")) == {b"k": [7, 8]}
    assert lives.application.metric("millrace_stream_task_restore_records_total") >= 1


def test_a_record_as_old_as_the_newest_is_not_late_without_grace(lives: Lives) -> None:
    """Case W21: the second record of the window came in another batch, after a restart."""
    lives.application.wait_until_caught_up()
    assert last_counts(lives.world.read("tiny-windows")) == {("k", 10): 2}
    lives.world.send("numbers", Record(b"late", number(1), 9), Record(b"k", number(1), 15))
    lives.application.wait_until_caught_up()

    assert last_counts(lives.world.read("tiny-windows")) == {("k", 10): 2, ("k", 15): 1}
    assert lives.application.metric("millrace_stream_task_dropped_records_total", reason="late") == 1


def test_event_time_passes_through_the_repartition_topic_and_a_restore(lives: Lives) -> None:
    """Cases J15 and P05: windows are those of the records' time; records before 1970 are skipped and not read again."""
    events = lives.world.name("events")
    assert last_counts(lives.world.read("groups")) == {("x", 0): 2}
    assert lives.committed[events, 0] == 4
    lives.world.send("events", Record(b"n", b'{"group":"x","at":-1}', 500), Record(b"c", b'{"group":"x"}', 11_000))
    lives.application.wait_until_caught_up()

    assert last_counts(lives.world.read("groups")) == {("x", 0): 2, ("x", 10_000): 1}
    dropped = lives.application.metric("millrace_stream_task_dropped_records_total", reason="negative_timestamp")
    assert dropped == 1  # those of the first life are not read again
    assert lives.application.committed()[events, 0] == 6


def test_internal_topics_have_the_settings_of_kafka_streams(lives: Lives) -> None:
    """Cases W19 and P06."""
    application, admin = lives.application, lives.world.admin
    plain = admin.topic_settings(lives.changelog("sums"))
    assert plain["cleanup.policy"] == "compact"
    for store, size_and_grace in (("five-minutes", 360_000), ("groups", 10_000)):
        windowed = admin.topic_settings(lives.changelog(store))
        assert set(windowed["cleanup.policy"].split(",")) == {"compact", "delete"}
        assert int(windowed["retention.ms"]) == size_and_grace + DAY_MS
        assert windowed["message.timestamp.type"] == "CreateTime"
    repartition = admin.topic_settings(f"{application.application_id}-by-group-repartition")
    assert repartition["cleanup.policy"] == "delete"
    assert repartition["retention.ms"] == "-1"
    assert repartition["message.timestamp.type"] == "CreateTime"


def test_the_repartition_topic_is_purged_up_to_what_is_committed(lives: Lives) -> None:
    topic_partition = (f"{lives.application.application_id}-by-group-repartition", 0)
    lives.application.wait_until_caught_up()

    def is_purged() -> bool:
        return (
            begin_offsets(lives.world.admin, [topic_partition])[topic_partition]
            == lives.application.committed()[topic_partition]
            > 0
        )

    wait_until(is_purged, timeout_s=20, what="begin = committed")


def test_a_restart_goes_on_where_it_stopped(lives: Lives) -> None:
    application = lives.application
    before = totals(lives.world.read("sums"))
    assert application.stop() == 0
    status = application.published_status()
    assert status is not None
    assert (status.state, status.reason) == ("NOT_RUNNING", "stopped by SIGTERM")
    lives.world.send("numbers", Record(b"k", number(100), 20))
    application.start_and_wait()
    application.wait_until_caught_up()

    after = totals(lives.world.read("sums"))
    assert after[b"k"][:-1] == before[b"k"]
    assert after[b"k"][-1] == before[b"k"][-1] + 100
    assert application.metric("millrace_stream_task_restore_records_total") == 0


def test_a_new_partition_of_the_input_ends_it_with_the_remedy(lives: Lives) -> None:
    topic = lives.world.name("numbers")
    lives.world.admin.add_partitions(topic, 2)

    assert lives.application.wait_for_exit(60) == 1
    status = lives.application.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert f"{topic}-1" in status.reason
    assert "reset the application" in status.remedy
