"""A stream-table join of two co-partitioned topics, in batches so small that one input is always ahead of the other."""

from __future__ import annotations

import random

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from millrace.kafka.murmur2 import partition_for
from tests.application import Application
from tests.integration.spark.conftest import World
from tests.records import ReadRecord, Record

PARTITIONS = 2
START = 1_700_000_000_000


def input_records(seed: int) -> dict[str, list[Record]]:
    """Changes of prices and orders over them, each topic in the order of its sending, with times out of order."""
    chance = random.Random(seed)
    records: dict[str, list[Record]] = {"table": [], "stream": []}
    for second in range(200):
        key = f"k{chance.randrange(8)}".encode()
        time = START + second * 1000 - chance.choice((0, 0, 0, 5_000))
        if chance.random() < 0.4:
            value = None if chance.random() < 0.2 else f"p{second}".encode()
            records["table"].append(Record(key, value, time))
        else:
            records["stream"].append(Record(key, f"o{second}".encode(), time))
    return records


def joined(logs: dict[str, list[ReadRecord]]) -> list[tuple[bytes, bytes]]:
    """The result by the rule itself: always the input whose next record has the smallest timestamp goes on."""
    results: list[tuple[bytes, bytes]] = []
    for partition in range(PARTITIONS):
        queues = {name: [r for r in log if r.partition == partition] for name, log in logs.items()}
        prices: dict[bytes, bytes] = {}
        newest = dict.fromkeys(queues, 0)
        while any(queues.values()):
            # A record cannot overtake an older offset of its own partition; equal times go by the topic's name.
            heads = {name: max(newest[name], queue[0].timestamp) for name, queue in queues.items() if queue}
            name = min(heads, key=lambda each: (heads[each], each))
            newest[name] = heads[name]
            record = queues[name].pop(0)
            assert record.key is not None
            if name == "table":
                if record.value is None:
                    prices.pop(record.key, None)
                else:
                    prices[record.key] = record.value
            else:
                price = prices.get(record.key, b"None")
                results.append((record.key, (record.value or b"") + b":" + price))
    return results


def by_key(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def test_rows_are_joined_in_the_order_of_their_times_and_a_foreign_commit_ends_it(world: World) -> None:
    """Both inputs are on the broker before the start; a batch takes nine records of all partitions together."""
    world.create("table", "stream", "joined", partitions=PARTITIONS)
    for name, records in input_records(7).items():
        world.send(name, *records)
    application = world.application("join", config={"max.batch.records": 9, "commit.interval.ms": 0})
    application.start_and_wait()
    application.wait_until_caught_up(120)
    check_joined(world)

    for name, records in input_records(8).items():
        world.send(name, *(Record(r.key, r.value, r.timestamp + 1_000_000) for r in records))
    application.wait_until_caught_up(120)
    check_outputs_of_second_load(world)

    check_foreign_commit_while_running(world, application)
    check_foreign_commit_before_the_start(world, application)


def check_joined(world: World) -> None:
    logs = {name: world.read(name) for name in ("stream", "table")}
    results = [(r.key or b"", r.value or b"") for r in world.read("joined")]
    assert by_key(results) == by_key(joined(logs))
    # The output of a partition is also in the order of its inputs over all keys.
    expected = joined(logs)
    for partition in range(PARTITIONS):
        own = [(r.key or b"", r.value or b"") for r in world.read("joined") if r.partition == partition]
        assert own == [pair for pair in expected if partition_for(pair[0], PARTITIONS) == partition]


def check_outputs_of_second_load(world: World) -> None:
    """While records arrive the order between the topics is that of the batches: only completeness is certain."""
    orders = {(r.key, r.value) for r in world.read("stream")}
    results = [(r.key, (r.value or b"").partition(b":")[0]) for r in world.read("joined")]
    assert sorted(results) == sorted((r.key, r.value) for r in world.read("stream"))
    assert set(results) == orders


def commit_as_foreign_client(world: World, application: Application, offset: int) -> None:
    position = TopicPartition(world.name("stream"), 0, offset)
    client = AdminClient({"bootstrap.servers": world.bootstrap_servers})
    request = ConsumerGroupTopicPartitions(application.application_id, [position])
    client.alter_consumer_group_offsets([request])[application.application_id].result(20)


def check_foreign_commit_while_running(world: World, application: Application) -> None:
    commit_as_foreign_client(world, application, 1)
    assert application.wait_for_exit(60) == 1
    status = application.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert f"{world.name('stream')}-0 at 1" in status.reason
    assert "find who uses the group" in status.remedy
    assert status.offsets[world.name("stream")][0] == len([r for r in world.read("stream") if r.partition == 0])


def check_foreign_commit_before_the_start(world: World, application: Application) -> None:
    results = world.read("joined")
    assert application.start().wait_for_exit(90) == 1
    status = application.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert f"{world.name('stream')}-0 at 1" in status.reason
    assert world.read("joined") == results
