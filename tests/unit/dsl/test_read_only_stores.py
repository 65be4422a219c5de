"""``Topology.add_read_only_state_store`` (KIP-813)."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Processor, Record, Stores, Topology
from millrace.errors import TopologyError
from millrace.serdes import StringSerde
from millrace.testing import TopologyTestDriver
from millrace.topology.store_builders import StoreBuilder

TEXT = StringSerde()


class Keep(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("rates")

    def process(self, record: Any) -> None:
        if record.value is None:
            self.store.delete(record.key)
        else:
            self.store.put(record.key, record.value)


class Convert(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.get_state_store("rates")

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(f"{record.value} at {self.store.get(record.key)}"))


def builder_of(supplier: Any = None) -> StoreBuilder:
    return Stores.key_value_store_builder(supplier or Stores.persistent_key_value_store("rates"), TEXT, TEXT)


def topology() -> Topology:
    made = Topology()
    made.add_source("payments", "payments-topic", key_serde=TEXT, value_serde=TEXT)
    made.add_processor("convert", Convert, "payments")
    made.add_read_only_state_store(
        builder_of(), "rates-source", "rates-topic", "keep", Keep, key_serde=TEXT, value_serde=TEXT
    )
    made.connect_processor_and_state_stores("convert", "rates")
    made.add_sink("converted", "out", "convert", key_serde=TEXT, value_serde=TEXT)
    return made


def test_its_topic_fills_it_and_no_changelog_is_written() -> None:
    with TopologyTestDriver(topology()) as driver:
        rates = driver.create_input_topic("rates-topic", TEXT, TEXT)
        payments = driver.create_input_topic("payments-topic", TEXT, TEXT)
        rates.pipe_input("EUR", "1.1", 1)
        payments.pipe_input("EUR", "5", 2)
        rates.pipe_input("EUR", None, 3)
        payments.pipe_input("EUR", "6", 4)
        out = driver.create_output_topic("out", TEXT, TEXT)
        assert out.read_values() == ["5 at 1.1", "6 at None"]
        assert driver.produced_topic_names() == {"out"}


def test_it_is_part_of_the_tasks_that_are_connected_to_it_and_its_topic_is_its_changelog() -> None:
    (part,) = topology().build().sub_topologies
    (store,) = part.stores
    assert (store.logged, store.source_topic, store.changelog_topic("app")) == (False, "rates-topic", "rates-topic")
    (source,) = (each for each in part.sources if each.name == "rates-source")
    assert source.offset_reset == "earliest"
    assert "Processor: keep (stores: [rates])\n      --> none\n      <-- rates-source" in topology().describe()


def test_names_and_kinds_that_do_not_go_are_refused() -> None:
    made = topology()
    add: Any = made.add_read_only_state_store
    with pytest.raises(TopologyError, match="already been added with the name 'rates'"):
        add(builder_of(), "s2", "t2", "p2", Keep)
    other = builder_of(Stores.persistent_key_value_store("other"))
    with pytest.raises(TopologyError, match="'rates-source' is already added"):
        add(other, "rates-source", "t2", "p2", Keep)
    with pytest.raises(TopologyError, match="'keep' is already added"):
        add(other, "s2", "t2", "keep", Keep)
    with pytest.raises(TopologyError, match="both named 's2'"):
        add(other, "s2", "t2", "s2", Keep)
    with pytest.raises(TopologyError, match="already been registered by another source"):
        add(other, "s2", "payments-topic", "p2", Keep)
    windows = Stores.window_store_builder(Stores.persistent_window_store("w", 10, 10), TEXT, TEXT)
    with pytest.raises(TopologyError, match="'w' is a window store, which topic 't2' cannot restore"):
        add(windows, "s2", "t2", "p2", Keep)
    least = builder_of(Stores.lru_map("lru", 10))
    with pytest.raises(TopologyError, match="least-recently-used store"):
        add(least, "s2", "t2", "p2", Keep)
