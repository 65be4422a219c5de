"""What compulsory naming refuses, compared with what Kafka Streams refuses (KIP-1111)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from millrace.dsl import StreamsBuilder
from millrace.errors import TopologyError

TOPOLOGIES = Path(__file__).parent.parent / "topology"


def _catalogue() -> ModuleType:
    spec = importlib.util.spec_from_file_location("topology_catalogue_for_naming", TOPOLOGIES / "catalogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CATALOGUE = _catalogue().CATALOGUE


def _refused_by_kafka_streams() -> dict[str, set[str]]:
    refused: dict[str, set[str]] = {}
    for block in (TOPOLOGIES / "golden" / "explicit_naming.list").read_text().split("== ")[1:]:
        name, _, answer = block.partition("\n")
        listed = re.findall(r"named: (.*)", answer)
        refused[name] = {item for line in listed for item in line.split(", ")}
    return refused


REFUSED = _refused_by_kafka_streams()


# Kafka Streams does not look at the repartition topics of grouped tables, whose names follow those of the stores.
OVERLOOKED = {
    "table_aggregations_unnamed": {
        f"KTABLE-AGGREGATE-STATE-STORE-{number}-repartition" for number in ("0000000004", "0000000010", "0000000016")
    },
    "joins_with_a_cogrouped_table": {"KTABLE-AGGREGATE-STATE-STORE-0000000019-repartition"},
    "table_chain": {"KTABLE-AGGREGATE-STATE-STORE-0000000012-repartition"},
    "versioned_tables": {"KTABLE-AGGREGATE-STATE-STORE-0000000015-repartition"},
    "foreign_key_join_of_changed_tables": {"KTABLE-AGGREGATE-STATE-STORE-0000000028-repartition"},
}


# Nor at what connects the two sides of a join by a foreign key.
_OVERLOOKED_PREFIX = "KTABLE-FK-JOIN-SUBSCRIPTION-"


def _refused_here(name: str) -> set[str]:
    builder = StreamsBuilder()
    CATALOGUE[name](builder)
    try:
        builder.build(ensure_explicit_naming=True)
    except TopologyError as error:
        lists = re.findall(r"(?:topics|stores): ([^;]*?)(?:;|\.$)", error.message)
        return {item for names in lists for item in names.split(", ")}
    return set()


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_same_names_are_refused(name: str) -> None:
    refused = {item for item in _refused_here(name) if not item.startswith(_OVERLOOKED_PREFIX)}
    assert refused - OVERLOOKED.get(name, set()) == REFUSED[name]


@pytest.mark.parametrize("name", OVERLOOKED)
def test_what_kafka_streams_overlooks_is_refused_too(name: str) -> None:
    assert OVERLOOKED[name] <= _refused_here(name)


def test_the_topics_and_the_store_of_an_unnamed_foreign_key_join_are_refused() -> None:
    assert {item for item in _refused_here("foreign_key_join") if item.startswith(_OVERLOOKED_PREFIX)} == {
        "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
        "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
        "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010",
        "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010-changelog",
    }
    assert _refused_here("foreign_key_left_join_named") == set()


def test_both_outcomes_occur() -> None:
    assert any(REFUSED.values())
    assert not all(REFUSED.values())
