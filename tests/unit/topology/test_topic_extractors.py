"""Sinks whose topics are chosen for each record, as the topology shows them."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow.compute as pc
import pytest

from millrace.dsl import RecordContext, StreamsBuilder, Topology
from millrace.errors import TopologyError
from millrace.topology.topic_extractors import extractor_text
from millrace.topology.topology import FrozenTopology


def by_key(key: str, value: Any, context: RecordContext) -> str:
    return key


def by_value(key: str, value: Any, context: RecordContext) -> str:
    return str(value)


class Prefixed:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self, key: str, value: Any, context: RecordContext) -> str:
        return self.prefix + key


class Described(Prefixed):
    def __str__(self) -> str:
        return f"{self.prefix} and the key"


def routed(topic: Any) -> FrozenTopology:
    builder = StreamsBuilder()
    builder.stream("in").to(topic)
    return builder.build()


@pytest.mark.parametrize(
    ("extractor", "text"),
    [
        (by_key, "by_key"),
        (Prefixed("a"), "Prefixed"),
        (Described("a"), "a and the key"),
        (functools.partial(by_key), "partial"),
        (pc.field("kind"), "kind"),
    ],
)
def test_an_extractor_is_described_by_a_text_that_is_the_same_everywhere(extractor: Any, text: str) -> None:
    assert extractor_text(extractor) == text
    assert f"Sink: KSTREAM-SINK-0000000001 (extractor class: {text})\n" in routed(extractor).describe()


def test_the_fingerprint_knows_what_chooses_topics() -> None:
    prints = [routed(topic).fingerprint for topic in ("by_key", by_key, by_value)]
    assert len(set(prints)) == 3
    assert routed(by_key).fingerprint == prints[1]
    assert not routed(by_key).diff(routed(by_value)).changes


def test_its_topics_are_not_among_those_that_are_known() -> None:
    topology = routed(by_key)
    assert topology.external_outputs == frozenset()
    assert [sink.name for sink in topology.choosing_sinks] == ["KSTREAM-SINK-0000000001"]
    assert routed("out").choosing_sinks == ()


def test_an_extractor_must_take_key_value_and_context() -> None:
    message = r"topic name extractor .* cannot be called with \(key, value, context\)"
    with pytest.raises(TopologyError, match=message):
        routed(lambda key, value: key)
    by_hand = Topology().add_source("source", "in")
    with pytest.raises(TopologyError, match=message):
        by_hand.add_sink("sink", lambda key: key, "source")  # type: ignore[arg-type, misc]
    with pytest.raises(TopologyError, match="which is not callable"):
        routed(7)
