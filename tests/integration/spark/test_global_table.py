"""A stream joined with a global table of another number of partitions, on the real broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from millrace.serdes import LongSerde
from millrace.state import TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.records import Record

ORDERS = 2
PRODUCTS = 3
KEYS = [f"p{number}".encode() for number in range(12)]
START = 1_700_000_000_000


def price(number: int) -> bytes:
    return LongSerde().serialize(number)


def change_prices(world: World, number: int, *, in_transaction: bool = False) -> None:
    """Sets every product's price to ``number``."""
    records = [Record(key, price(number), START) for key in KEYS]
    if in_transaction:
        world.send_transaction("products", *[Record(key, price(-1), START) for key in KEYS], commit=False)
        world.send_transaction("products", *records, commit=True)
    else:
        world.send("products", *records)


def order_all(world: World, name: str) -> None:
    """An order of every product."""
    world.send("orders", *(Record(f"{name}-{number}".encode(), key, START) for number, key in enumerate(KEYS)))


def expect_prices(world: World, application: Application, name: str, number: int | None) -> None:
    application.wait_until_caught_up(120)
    found = [r for r in world.read("enriched") if (r.key or b"").startswith(name.encode())]
    assert {r.value for r in found} == {key + f":{number}".encode() for key in KEYS}
    assert len(found) == len(KEYS)


def copies(application: Application) -> list[Path]:
    """The directories of the table's copies."""
    root = application.state_directory / application.application_id / "global" / "products"
    return sorted(path for path in root.iterdir() if path.is_dir())


def contents(directory: Path) -> tuple[dict[bytes, bytes], dict[tuple[str, int], int]]:
    """Rows and position of a copy that no process has open."""
    spec = StoreSpec(name="products", kind=StoreKind.KEY_VALUE, logged=False)
    state = TaskState.open(directory, (spec,))
    try:
        rows = {key: value for key, value, _ in state.key_value_store("products").all()}
        return rows, dict(state.position.inputs)
    finally:
        state.close()


@pytest.mark.kills
def test_every_batch_sees_the_table_at_its_end_through_restarts_kills_and_unreadable_rows(world: World) -> None:
    """Also case S03: the table's topic ends in the markers of transactions, one of which was aborted."""
    world.create("orders", partitions=ORDERS)
    world.create("products", partitions=PRODUCTS, cleanup_policy="compact")
    world.create("enriched", "dead-letters")
    change_prices(world, 1)
    application = world.application(
        "enriching",
        config={
            "deserialization.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": world.name("dead-letters"),
        },
    )
    application.start_and_wait()
    status = application.status()
    assert status is not None
    assert world.name("products") in status.global_topic_ids
    assert world.name("products") not in status.partitions
    order_all(world, "first")
    expect_prices(world, application, "first", 1)

    check_updates_are_seen_by_later_orders(world, application)
    check_added_partitions_are_read(world, application)
    check_an_unreadable_row_is_told_once(world, application)
    check_a_killed_worker_goes_on(world, application)
    check_a_restart_goes_on_from_the_copies(world, application)
    check_a_recreated_topic_is_seen(world, application)


def check_updates_are_seen_by_later_orders(world: World, application: Application) -> None:
    for number in range(2, 8):
        change_prices(world, number, in_transaction=number % 2 == 0)
        order_all(world, f"update{number}")
        expect_prices(world, application, f"update{number}", number)


def check_added_partitions_are_read(world: World, application: Application) -> None:
    world.admin.add_partitions(world.name("products"), PRODUCTS + 1)
    world.send("products", Record(b"new", price(1), START, partition=PRODUCTS))

    def is_seen() -> bool:
        world.send("orders", Record(b"added", b"new", START))
        application.wait_until_caught_up(60)
        return any(r.value == b"new:1" for r in world.read("enriched"))

    wait_until(is_seen, timeout_s=60, what="the row of the added partition")
    world.send("products", Record(b"new", None, START, partition=PRODUCTS))


def check_an_unreadable_row_is_told_once(world: World, application: Application) -> None:
    world.send("products", Record(KEYS[0], b"no number", START))
    order_all(world, "poison")
    expect_prices(world, application, "poison", 7)
    (record,) = world.read("dead-letters")
    assert (record.key, record.value) == (KEYS[0], b"no number")
    headers = dict(record.headers or [])
    assert headers["__streams.errors.topic"] == world.name("products").encode()
    wait_until(
        lambda: application.metric("millrace_stream_task_dropped_records_total", reason="deserialization") == 1,
        timeout_s=30,
        what="one dropped record",
    )


def check_a_killed_worker_goes_on(world: World, application: Application) -> None:
    order_all(world, "before-kill")
    for worker in application.workers():
        os.kill(worker, signal.SIGKILL)
    change_prices(world, 8)
    order_all(world, "after-kill")
    expect_prices(world, application, "after-kill", 8)


def check_a_restart_goes_on_from_the_copies(world: World, application: Application) -> None:
    assert application.stop() == 0
    made = copies(application)
    assert 1 <= len(made) <= ORDERS
    rows, position = contents(made[0])
    assert rows == dict.fromkeys(KEYS, price(8))
    assert {partition for _, partition in position} == set(range(PRODUCTS + 1))
    change_prices(world, 9)
    application.start_and_wait()
    order_all(world, "restarted")
    expect_prices(world, application, "restarted", 9)
    assert "global store is built again" not in application.log
    assert copies(application) == made


def check_a_recreated_topic_is_seen(world: World, application: Application) -> None:
    world.admin.delete_topics([world.name("products")])
    wait_until(lambda: not application.is_alive(), timeout_s=60, what="the end of the application")
    status = application.published_status()
    assert status is not None
    assert "Topics of global stores" in status.reason
    world.create("products", partitions=PRODUCTS, cleanup_policy="compact")
    application.start_and_wait()
    order_all(world, "empty-table")
    expect_prices(world, application, "empty-table", None)
    assert "global store is built again" in application.log
    change_prices(world, 10)
    order_all(world, "filled-table")
    expect_prices(world, application, "filled-table", 10)
