"""Orders joined with customers by a foreign key: other keys, numbers of partitions and partitioners, and a restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from random import Random

from tests.application import Application
from tests.integration.spark.conftest import World
from tests.integration.spark.topologies import number_of
from tests.records import ReadRecord, Record, values_by_key

ORDER_PARTITIONS, CUSTOMER_PARTITIONS = 4, 3
START = 1_700_000_000_000
ORDERS = 20


class Tables:
    """Both tables as they should be, and their topics.

    Args:
        world: sends the changes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._time = START
        self.orders: dict[str, tuple[str | None, int]] = {}
        self.customers: dict[str, str] = {}

    def order(self, key: str, customer: str | None, value: int) -> Record:
        """Changes an order."""
        self.orders[key] = (customer, value)
        return self._record(key, json.dumps({"fk": customer, "v": value}), ORDER_PARTITIONS)

    def cancel(self, key: str) -> Record:
        """Deletes an order."""
        self.orders.pop(key, None)
        return self._record(key, None, ORDER_PARTITIONS)

    def customer(self, key: str, name: str | None) -> Record:
        """Changes or deletes a customer."""
        if name is None:
            self.customers.pop(key, None)
        else:
            self.customers[key] = name
        return self._record(key, name, CUSTOMER_PARTITIONS)

    def send(self, topic: str, records: Iterable[Record]) -> None:
        """Sends changes in their order."""
        self._world.send(topic, *records)

    def joined(self, *, left: bool) -> dict[bytes, bytes]:
        """The rows of the join, by the rule itself."""
        return {
            key.encode(): f"{value}:{self.customers.get(customer or '')}".encode()
            for key, (customer, value) in self.orders.items()
            if left or customer in self.customers
        }

    def _record(self, key: str, value: str | None, partitions: int) -> Record:
        self._time += 1
        partition = number_of("", key, None, partitions)
        return Record(key.encode(), None if value is None else value.encode(), self._time, partition)


def rows(records: list[ReadRecord]) -> dict[bytes | None, bytes | None]:
    """The last value of each key, where there is one."""
    last = {key: values[-1] for key, values in values_by_key(records).items()}
    return {key: value for key, value in last.items() if value is not None}


def test_orders_meet_their_customers_whatever_changes_and_stops(world: World) -> None:
    """Case J12, and more: the orders are not where Kafka's own partitioner would put them."""
    world.create("orders", "inner", "left", partitions=ORDER_PARTITIONS)
    world.create("customers", partitions=CUSTOMER_PARTITIONS)
    tables = Tables(world)
    application = world.application(
        "foreign_keys", config={"max.batch.records": 50, "repartition.purge.interval.ms": 3_600_000}
    )
    application.start_and_wait()
    check_case_j12(world, application, tables)

    chance = Random(11)
    assert application.stop() == 0
    shutil.rmtree(application.state_directory)
    tables.send("orders", changes_of_orders(tables, chance, 100))
    application.start_and_wait()
    application.wait_until_caught_up(120)
    assert application.metric("millrace_stream_task_restore_records_total") > 0
    check(world, tables)

    tables.send("customers", changes_of_customers(tables, chance, 30))
    application.wait_until_caught_up(120)
    check(world, tables)

    orders, customers = [], []
    for value in range(1000, 1150):
        if chance.random() < 0.8 and tables.orders:
            key = chance.choice(sorted(tables.orders))
            orders.append(tables.order(key, f"f{chance.randrange(6)}", value))
        else:
            customers.append(tables.customer(f"f{chance.randrange(6)}", f"c{value}"))
    tables.send("orders", orders)
    tables.send("customers", customers)
    application.wait_until_caught_up(120)
    check(world, tables)


def changes_of_orders(tables: Tables, chance: Random, count: int) -> list[Record]:
    changes = []
    for value in range(100, 100 + count):
        key = f"p{chance.randrange(ORDERS)}"
        if chance.random() < 0.2:
            changes.append(tables.cancel(key))
        else:
            changes.append(tables.order(key, chance.choice([None, "f0", "f1", "f2", "f3", "f7"]), value))
    return changes


def changes_of_customers(tables: Tables, chance: Random, count: int) -> list[Record]:
    names = [None, *(f"c{number}" for number in range(count))]
    return [tables.customer(f"f{chance.randrange(6)}", chance.choice(names)) for _ in range(count)]


def check(world: World, tables: Tables) -> None:
    assert rows(world.read("left")) == tables.joined(left=True)
    assert rows(world.read("inner")) == tables.joined(left=False)


def check_case_j12(world: World, application: Application, tables: Tables) -> None:
    def caught_up() -> list[ReadRecord]:
        application.wait_until_caught_up(120)
        return world.read("inner")

    tables.send("customers", [tables.customer(f"f{number}", f"c{number}") for number in range(3)])
    tables.send("orders", [tables.order(f"p{number}", f"f{number % 3}", number) for number in range(ORDERS)])
    loaded = caught_up()
    assert len(loaded) == ORDERS
    tables.send("customers", [tables.customer("f1", "changed")])
    updated = caught_up()
    assert len(updated) == ORDERS + 7
    tables.send("orders", [tables.cancel("p4")])
    deleted = caught_up()
    assert len(deleted) == ORDERS + 7 + 1
    assert [record.key for record in deleted if record.value is None] == [b"p4"]
    check(world, tables)

    partition_of = {record.key: record.partition for record in world.read("orders")}
    internal = world.read_any(f"{application.application_id}-inner-subscription-response-topic")
    assert len(internal) == len(deleted)
    for record in [*deleted, *internal]:
        assert record.partition == partition_of[record.key]
    expected = {
        "inner-subscription-registration-topic": CUSTOMER_PARTITIONS,
        "inner-subscription-response-topic": ORDER_PARTITIONS,
        "left-subscription-registration-topic": CUSTOMER_PARTITIONS,
        "left-subscription-response-topic": ORDER_PARTITIONS,
        "inner-subscription-store-changelog": CUSTOMER_PARTITIONS,
        "left-subscription-store-changelog": CUSTOMER_PARTITIONS,
        "orders-changelog": ORDER_PARTITIONS,
        "customers-changelog": CUSTOMER_PARTITIONS,
    }
    made = world.admin.describe_topics([f"{application.application_id}-{name}" for name in expected])
    assert [topic.partitions for topic in made.values()] == list(expected.values())
