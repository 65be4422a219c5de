"""One running application without state: what it makes of transactions, poison, headers, gaps and new partitions."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from millrace.kafka.offsets import begin_offsets, end_offsets
from millrace.spark.class_archive import make_class_archive
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.records import Record

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def application(world: World) -> Iterator[Application]:
    world.create("transactions", "json", partitions=1)
    world.create("transactions-out", "compacted-out", "json-out")
    any_time = {"message_timestamp_after_max_ms": str(2**63 - 1)}
    world.create("headed", "framed", "mapped-out", "rekeyed-out", "framed-out", partitions=1, **any_time)
    world.create("dead-letters", "matched-a", "matched-b", "matched-2")
    world.create("everywhere", partitions=3)
    world.create(
        "compacted",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    for second, (key, value) in enumerate(
        [("a", "0"), ("b", "1"), ("b", "2"), ("b", "3"), ("c", "4"), ("c", "5"), ("c", "6"), ("c", "7"), ("d", "8")]
    ):
        world.send("compacted", Record(key.encode(), value.encode(), START + second * 1000))
    running = world.application(
        "stateless",
        config={
            "commit.interval.ms": 500,
            "deserialization.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": world.name("dead-letters"),
            "repartition.purge.interval.ms": 500,
        },
    )
    running.start_and_wait()
    yield running
    assert running.stop() == 0


def committed(world: World, application: Application, topic: str) -> list[int]:
    name = world.name(topic)
    return [offset for (found, _), offset in sorted(application.committed().items()) if found == name]


def test_it_starts_without_a_single_record(world: World, application: Application) -> None:
    assert committed(world, application, "transactions") == [0]
    assert application.metric("millrace_stream_application_state", state="RUNNING") == 1
    assert world.read("transactions-out") == []


def test_its_virtual_machine_maps_the_archive_of_classes(application: Application) -> None:
    """One that finds something else than what was recorded leaves the archive aside, and says nothing."""
    archive = make_class_archive(print)
    (machine,) = [
        process
        for process in psutil.process_iter(["ppid", "cmdline"])
        if process.info["ppid"] == application.pid
        and "org.apache.spark.deploy.SparkSubmit" in (process.info["cmdline"] or ())
    ]
    assert str(archive) in {mapped.path for mapped in machine.memory_maps()}


def test_only_committed_records_of_transactions_are_seen_and_the_lag_becomes_zero(
    world: World, application: Application
) -> None:
    """Cases E01, E08 and E09: markers and aborted records take offsets."""
    world.send_transaction("transactions", Record(b"k", b"1", 1), Record(b"k", b"2", 2), commit=True)
    world.send_transaction("transactions", Record(b"k", b"3", 3), Record(b"k", b"4", 4), commit=False)
    world.send_transaction("transactions", Record(b"k", b"5", 5), Record(b"k", b"6", 6), commit=True)
    application.wait_until_caught_up()

    assert [record.value for record in world.read("transactions-out")] == [b"1", b"2", b"5", b"6"]
    assert committed(world, application, "transactions") == [9]
    topic = world.name("transactions")
    application.wait_for(lambda status: status.lag[topic] == {0: 0}, timeout_s=10, what="lag 0")
    task = next(f"{number}_0" for number, topics in enumerate(_inputs_of_queries(application)) if topic in topics)
    assert application.metric("millrace_stream_task_process_total", task=task) == 4
    # Computed with each heartbeat.
    wait_until(
        lambda: application.metric("millrace_consumer_records_lag", topic=topic) == 0,
        timeout_s=10,
        what="metric of lag 0",
    )


def _inputs_of_queries(application: Application) -> list[set[str]]:
    status = application.status()
    assert status is not None
    return [
        {name for node in nodes for name in node.get("topics", ())}
        for nodes in status.topology_summary["sub_topologies"]
    ]


def test_ranges_of_only_aborted_records_and_markers_are_committed(world: World, application: Application) -> None:
    before = committed(world, application, "transactions")
    world.send_transaction("transactions", Record(b"k", b"x", 7), Record(b"k", b"y", 8), commit=False)
    application.wait_until_caught_up(timeout_s=20)

    assert committed(world, application, "transactions") == [before[0] + 3]
    assert len(world.read("transactions-out")) == 4


def test_gaps_of_compaction_are_no_loss(world: World, application: Application) -> None:
    """Case E09."""
    application.wait_until_caught_up()
    copied = [record.value or b"" for record in world.read("compacted-out")]
    assert copied == sorted(copied)
    assert len(copied) == len(set(copied))
    assert set(copied) >= {b"0", b"3", b"7", b"8"}
    assert committed(world, application, "compacted") == [9]


def test_offsets_advance_over_poison_which_goes_to_the_dead_letters_with_its_headers(
    world: World, application: Application
) -> None:
    """Case P01."""
    topic = world.name("json")
    world.send("json", *(Record(b"k", b"{{", START, headers=[("trace", b"7"), ("empty", None)]) for _ in range(3)))
    application.wait_until_caught_up()
    assert committed(world, application, "json") == [3]
    world.send(
        "json", Record(b"k", b'{"group":"g","at":1}', START), Record(b"k", b"{{", START), Record(b"k", b"{{", START)
    )
    application.wait_until_caught_up()

    assert committed(world, application, "json") == [6]
    assert [record.value for record in world.read("json-out")] == [b'{"group":"g","at":1}']
    assert application.metric("millrace_stream_task_dropped_records_total", reason="deserialization") == 5
    dead_letters = world.read("dead-letters")
    assert [record.value for record in dead_letters] == [b"{{"] * 5
    headers = dead_letters[0].headers
    assert headers is not None
    assert headers[:2] == [("trace", b"7"), ("empty", None)]
    added = dict(headers[2:])
    assert added["__streams.errors.topic"] == topic.encode()
    assert added["__streams.errors.partition"] == b"0"
    assert added["__streams.errors.offset"] == b"0"
    assert b"Error" in (added["__streams.errors.exception"] or b"")
    assert added["__streams.errors.message"]
    assert added["__streams.errors.stacktrace"]


def test_headers_survive_mapping_and_a_repartition_topic(world: World, application: Application) -> None:
    """Case P04: their order, duplicates and a null value, which is not an empty one."""
    headers = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")]
    world.send("headed", Record(b"k", b"v", START + 5, headers=headers), Record(b"k", b"plain", START + 6))
    application.wait_until_caught_up()

    for topic, key, values in (("mapped-out", b"k", [b"V", b"PLAIN"]), ("rekeyed-out", b"new-k", [b"v", b"plain"])):
        records = world.read(topic)
        assert [(record.key, record.value, record.timestamp) for record in records] == [
            (key, values[0], START + 5),
            (key, values[1], START + 6),
        ]
        assert records[0].headers == headers
        assert not records[1].headers


def test_processed_records_are_deleted_from_the_repartition_topic(world: World, application: Application) -> None:
    topic_partition = (f"{application.application_id}-rekeyed-repartition", 0)
    world.send("headed", Record(b"p", b"purged", START))
    application.wait_until_caught_up()
    wait_until(
        lambda: begin_offsets(world.admin, [topic_partition]) == end_offsets(world.admin, [topic_partition]),
        timeout_s=20,
        what="purged",
    )
    assert begin_offsets(world.admin, [topic_partition])[topic_partition] >= 1


def test_a_frame_function_joins_with_a_static_table(world: World, application: Application) -> None:
    world.send("framed", Record(b"1", b"DE", START), Record(b"2", b"XX", START), Record(b"3", b"pt", START))
    application.wait_until_caught_up()

    assert [(record.key, record.value) for record in world.read("framed-out")] == [
        (b"1", b"Germany"),
        (b"3", b"Portugal"),
    ]
    assert committed(world, application, "framed") == [3]


def test_topics_of_a_pattern_are_read_and_records_are_written_to_every_partition(
    world: World, application: Application
) -> None:
    for name in ("a", "b", "2"):
        world.send(f"matched-{name}", Record(name.encode(), b"x", START))
    application.wait_until_caught_up()
    found = sorted((record.key, record.value, record.partition) for record in world.read("everywhere"))
    assert found == [(key, b"xx", partition) for key in (b"a", b"b") for partition in range(3)]
    assert committed(world, application, "matched-2") == []


def test_the_lag_is_that_of_the_application_s_own_offsets(world: World, application: Application) -> None:
    """Case M06."""
    topic = world.name("framed")
    before = committed(world, application, "framed")[0]
    world.send("framed", *(Record(b"k", b"de", START) for _ in range(40)))
    application.wait_until_caught_up()
    assert application.post("pause").status_code == 202
    world.send("framed", *(Record(b"k", b"de", START) for _ in range(60)))

    application.wait_for(lambda status: status.lag[topic] == {0: 60}, timeout_s=15, what="lag 60")
    wait_until(lambda: application.metric("millrace_consumer_records_lag", topic=topic) == 60, timeout_s=5, what="60")
    assert committed(world, application, "framed") == [before + 40]
    assert application.post("resume").status_code == 202
    application.wait_until_caught_up()
    application.wait_for(lambda status: status.lag[topic] == {0: 0}, timeout_s=15, what="lag 0")
    assert committed(world, application, "framed") == [before + 100]


def test_timestamps_beyond_sparks_range_are_processed(world: World, application: Application) -> None:
    """Case E18: microseconds, which Spark carries, nanoseconds and the largest long, between others; also through a
    repartition topic and a frame function. No query starts again for it.
    """
    times = [START, START * 1_000, START * 1_000_000, 2**63 - 1, START + 1, START * 1_000_000 + 1, START + 2]
    written = {name: len(world.read(name)) for name in ("mapped-out", "rekeyed-out", "framed-out")}
    world.send("headed", *(Record(b"t%d" % row, b"at", time) for row, time in enumerate(times)))
    world.send("framed", *(Record(b"t%d" % row, b"DE", time) for row, time in enumerate(times)))
    application.wait_until_caught_up(timeout_s=180)
    for name, prefix in (("mapped-out", b""), ("rekeyed-out", b"new-"), ("framed-out", b"")):
        found = [(record.key, record.timestamp) for record in world.read(name)[written[name] :]]
        assert found == [(prefix + b"t%d" % row, time) for row, time in enumerate(times)], name
    world.send("headed", Record(b"after", b"it", START + 3))
    application.wait_until_caught_up()
    assert world.read("mapped-out")[-1].key == b"after"
    log = application.log
    assert "workers read the input for a while" in log
    assert "query failed" not in log


def test_a_new_partition_is_read_from_its_first_record(world: World, application: Application) -> None:
    topic = world.name("json")
    world.admin.add_partitions(topic, 2)
    world.send("json", *(Record(b"n", b'{"group":"new","at":1}', START, partition=1) for _ in range(3)))

    wait_until(
        lambda: application.committed().get((topic, 1)) == 3, timeout_s=60, what="the new partition's records committed"
    )
    application.wait_until_running()
    new = [record for record in world.read("json-out") if record.key == b"n"]
    assert len(new) == 3
    status = application.status()
    assert status is not None
    assert status.partitions[topic] == 2
    number = next(n for n, topics in enumerate(_inputs_of_queries(application)) if topic in topics)
    assert f"{application.application_id}-{number}_1" in status.transactional_ids
