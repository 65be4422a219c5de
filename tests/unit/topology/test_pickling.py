"""What cannot be sent to workers is found before an application is launched, by node, function and variable."""

from __future__ import annotations

import functools
import re
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import Processor, Record, Stores, StreamsBuilder
from millrace.errors import TopologyError
from millrace.testing import TopologyTestDriver
from millrace.topology.pickling import check_picklable
from millrace.topology.store_builders import StoreSupplier

LOCK = threading.Lock()


class Client:
    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")

    def lookup(self, key: Any, value: Any) -> Any:
        return value


class Enriching(Processor[Any, Any]):
    def __init__(self, client: Any) -> None:
        self.client = client

    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


def with_closure(builder: StreamsBuilder) -> None:
    client = Client()
    builder.stream("in").map_values(lambda key, value: client.lookup(value, key), named="lookup").to("out")


def with_nested_function(builder: StreamsBuilder) -> None:
    lock = threading.Lock()

    def guarded(value: Any) -> Any:
        with lock:
            return value

    builder.stream("in").map_values(lambda key, value: guarded(value), named="guarded").to("out")


def with_global(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(lambda key, value: LOCK.locked(), named="check").to("out")


def with_partial(builder: StreamsBuilder) -> None:
    def check(lock: Any, key: Any, value: Any) -> bool:
        return True

    builder.stream("in").filter(functools.partial(check, threading.Lock()), named="check").to("out")


def with_method(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(Client().lookup, named="lookup").to("out")


def with_default(builder: StreamsBuilder) -> None:
    def check(key: Any, value: Any, lock: Any = LOCK) -> bool:
        return True

    builder.stream("in").filter(check, named="check").to("out")


def with_supplier(builder: StreamsBuilder) -> None:
    client = Client()
    builder.stream("in").process(lambda: Enriching(client), named="enrich").to("out")


def with_store(builder: StreamsBuilder) -> None:
    lock = threading.Lock()
    supplier: StoreSupplier = Stores.custom_key_value_store("own", lambda name: lock)  # type: ignore[arg-type, return-value]
    builder.add_state_store(Stores.key_value_store_builder(supplier, None, None))
    builder.stream("in").process(functools.partial(Enriching, None), "own", named="enrich").to("out")


def with_global_store(builder: StreamsBuilder) -> None:
    lock = threading.Lock()
    builder.stream("in").filter(lambda key, value: True).to("out")
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("all"), None, None)
    from millrace.dsl import Consumed

    builder.add_global_store(store, "global", Consumed.as_("reader"), lambda: Enriching(lock))


BROKEN: dict[Callable[[StreamsBuilder], None], str] = {
    with_closure: r"node lookup cannot be sent.*<lambda> .*line \d+\) -> closure variable client .*Client\) -> "
    r"attribute connection \(sqlite3.Connection\): TypeError",
    with_nested_function: r"node guarded cannot.* variable guarded .* -> closure variable lock \(_thread.lock\)",
    with_global: r"node check cannot be sent.*global variable LOCK \(_thread.lock\)",
    with_partial: r"node check cannot be sent.*argument 0 \(_thread.lock\)",
    with_method: r"node lookup cannot be sent.*object .*Client\) -> attribute connection \(sqlite3.Connection\)",
    with_default: r"node check cannot be sent.*default of parameter 0 \(_thread.lock\)",
    with_supplier: r"node enrich cannot be sent.*closure variable client .*attribute connection \(sqlite3.Connection\)",
    with_store: r"store own cannot be sent.*closure variable lock \(_thread.lock\)",
    with_global_store: r"node reader cannot be sent.*closure variable lock \(_thread.lock\)",
}


@pytest.mark.parametrize("describe", BROKEN, ids=[each.__name__ for each in BROKEN])
def test_what_cannot_be_pickled_is_found_in_the_test_driver_by_its_variable(
    describe: Callable[[StreamsBuilder], None],
) -> None:
    builder = StreamsBuilder()
    describe(builder)
    with pytest.raises(TopologyError) as raised:
        TopologyTestDriver(builder.build())
    assert re.search(BROKEN[describe], raised.value.message), raised.value.message
    assert "init()" in raised.value.remedy


def test_functions_of_a_module_and_closures_over_plain_data_can_be_sent() -> None:
    limits = {"a": 1}
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda key, value: key in limits).process(functools.partial(Enriching, None)).to("out")
    check_picklable(builder.build())
