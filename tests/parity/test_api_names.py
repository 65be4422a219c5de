"""Every public method of Kafka Streams' DSL has its counterpart, or a reason why it has none."""

from __future__ import annotations

import re
import subprocess

import pytest

import millrace.dsl
from millrace.kafka.jars import STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import find_java
from millrace.testing import TopologyTestDriver

KSTREAM = "org.apache.kafka.streams.kstream"
OF_THE_DSL = """
Branched BranchedKStream CogroupedKStream Consumed EmitStrategy GlobalKTable Grouped JoinWindows Joined KGroupedStream
KGroupedTable KStream KTable Materialized Printed Produced Repartitioned SessionWindowedCogroupedKStream
SessionWindowedKStream SessionWindows SlidingWindows StreamJoined Suppressed TableJoined TimeWindowedCogroupedKStream
TimeWindowedKStream TimeWindows UnlimitedWindows
"""
CLASSES = {
    **dict.fromkeys(OF_THE_DSL.split(), KSTREAM),
    "StreamsBuilder": "org.apache.kafka.streams",
    "Topology": "org.apache.kafka.streams",
    "Stores": "org.apache.kafka.streams.state",
    "ProcessorContext": "org.apache.kafka.streams.processor.api",
    "FixedKeyProcessorContext": "org.apache.kafka.streams.processor.api",
}
PROPERTIES = {"gracePeriodMs", "size", "timeDifferenceMs", "inactivityGap", "type", "windowsFor", "gracePeriod"}
"""What Java reads of option objects; here they are frozen dataclasses whose fields are seen."""

WITHOUT_COUNTERPART = {
    "Branched.withName": "an implementation detail that is public in Java",
    "JoinWindows.grace": "deprecated with `of`",
    "JoinWindows.of": "deprecated since 3.0",
    "StreamJoined.withDslStoreSuppliers": "with_store_type",
    "StreamsBuilder.newTopology": "protected",
    "Stores.persistentSessionStoreWithHeaders": "KIP-1271: not built",
    "Stores.persistentTimestampedKeyValueStoreWithHeaders": "KIP-1271: not built",
    "Stores.persistentTimestampedWindowStoreWithHeaders": "KIP-1271: not built",
    "Stores.sessionStoreWithHeadersBuilder": "KIP-1271: not built",
    "Stores.timestampedKeyValueStoreWithHeadersBuilder": "KIP-1271: not built",
    "Stores.timestampedWindowStoreWithHeadersBuilder": "KIP-1271: not built",
}


@pytest.fixture(scope="module")
def methods() -> dict[str, set[str]]:
    """Names of the public methods of each class, as its class file has them."""
    names = [f"{package}.{name}" for name, package in CLASSES.items()]
    javap = find_java().resolve().with_name("javap")
    jars = class_path(resolve_jars(STREAMS_JARS))
    text = subprocess.run([javap, "-cp", jars, *names], capture_output=True, text=True, check=True).stdout
    found: dict[str, set[str]] = {}
    for part in text.split("Compiled from")[1:]:
        header = re.search(r"(?:class|interface) [\w.]*\.(\w+)", part)
        assert header is not None, part[:200]
        name = header[1]
        found[name] = set(re.findall(r"(\w+)\(", part)) - {name, "equals", "hashCode", "toString"}
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_has_a_counterpart_or_a_reason(name: str, methods: dict[str, set[str]]) -> None:
    ours = getattr(millrace.dsl, name)
    assert methods[name] or name in {"GlobalKTable"}
    missing = {
        f"{name}.{method}"
        for method in methods[name] - PROPERTIES
        if not hasattr(ours, _snake(method)) and f"{name}.{method}" not in WITHOUT_COUNTERPART
    }
    assert not missing
    outdated = {reason for reason in WITHOUT_COUNTERPART if reason.startswith(f"{name}.")} - {
        f"{name}.{method}" for method in methods[name] if not hasattr(ours, _snake(method))
    }
    assert not outdated, "they have a counterpart now, or Kafka Streams has dropped them"


def test_the_test_driver_is_driven_by_the_same_names() -> None:
    for name in ("create_input_topic", "create_output_topic", "advance_wall_clock_time"):
        assert hasattr(TopologyTestDriver, name), name


def _snake(method: str) -> str:
    name = re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", method)
    return {"with": "with_", "as": "as_"}.get(name, name)
