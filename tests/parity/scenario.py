"""Scenarios: a topology and its input as JSON, run through our test driver and through Kafka Streams' own.

A scenario is an object with

- ``topology``: steps ``{"op": ..., "on": stream, "as": stream, "fn": function, "store": name, ...}``; the name under
  ``as`` is what later steps refer to;
- ``input``: ``[topic, key, value, timestamp]``: key and value are text or ``null``, and the value's text is JSON of an
  object ``{"user": text or null, "amount": integer or null}``, of a number, or anything else that cannot be read;
  a row of the topic ``wall clock`` moves the wall clock ahead by its timestamp, milliseconds; a fifth entry of a row
  is an object with the record's headers, whose values are text;
- ``settings`` (optional): sentences, see ``SETTINGS``.

Functions are named, since they exist twice: in ``functions.py`` and in ``java/RunScenarios.java``. To cover another
operator, add it to ``scenario_topology.py`` and to ``add`` there; its functions get names in both tables.

Every result holds the records of all topics as bytes (changelogs and dead letters included) with their headers, the
contents of the stores, how many records were dropped, the description of the topology, and the settings of its internal
topics. Headers in the changelogs of join buffers and of subscriptions to foreign keys, which nothing reads, are left
out. The changelogs of suppression buffers are compared as compaction leaves them, unless ``every_buffer_change`` asks
for all of them: Kafka Streams writes the keys that a commit changed in the order of a hash set, and a batch is one
commit.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from functools import lru_cache
from typing import Any

from millrace.dead_letter_headers import DROPPED_REASON
from millrace.kafka.topics import changelog_topic, repartition_topic
from millrace.serdes import BytesSerde
from millrace.testing import TestInputTopic, TestRecord, TopologyTestDriver
from millrace.testing.topics import RawRecord
from millrace.topology.stores import StoreKind
from millrace.topology.topology import FrozenTopology
from tests.parity.scenario_topology import VALUE, ScenarioTopology

Scenario = dict[str, Any]
Result = dict[str, Any]

WALL_CLOCK = "wall clock"
REWRITES = {
    "single store self join": "single-store-self-join",
    "reuse source topic": "reuse-source-topic",
    "merge repartition topics": "merge-repartition-topics",
}
WITHOUT_HEADERS = re.compile(r"-(join-store|left|right|subscription-store|SUBSCRIPTION-STATE-STORE-\d+)-changelog$")
"""Changelogs whose headers are not compared."""
SETTINGS: dict[str, dict[str, Any]] = {
    "continue after deserialization errors": {"deserialization.exception.handler": "continue"},
    "continue after processing errors": {"processing.exception.handler": "continue"},
    "compare headers": {},
    "compare repartition topics": {},
    "dead letters": {"errors.dead.letter.queue.topic.name": "dlq"},
    "null results at most once a second": {"outer.join.emit.interval.ms": 1000},
    **{sentence: {} for sentence in REWRITES},
}


class Form(Enum):
    """How our side runs a scenario; the result must be the same."""

    CALLABLES = "callables over untyped values, record by record"
    COLUMNS = "expressions and built-in aggregators over typed columns, record by record"
    CALLABLES_IN_BATCHES = "callables over untyped values, in batches"
    COLUMNS_IN_BATCHES = "expressions and built-in aggregators over typed columns, in batches"

    @property
    def in_columns(self) -> bool:
        """Whether what has a columnar form takes it."""
        return self in {Form.COLUMNS, Form.COLUMNS_IN_BATCHES}

    @property
    def in_batches(self) -> bool:
        """Whether neighbouring records of one topic come as one batch."""
        return self in {Form.CALLABLES_IN_BATCHES, Form.COLUMNS_IN_BATCHES}


def _take_out_letters_of_dropped_records(topics: dict[str, Any]) -> None:
    """Kafka Streams has no dead letters for negative timestamps; ours are held by tests of their own."""
    letters = topics.pop("dlq", [])
    kept = [row for row in letters if not any(header.startswith(f"{DROPPED_REASON}=") for header in row[-1])]
    if kept:
        topics["dlq"] = kept


def build(scenario: Scenario, *, in_columns: bool) -> FrozenTopology:
    """A scenario's topology, of which all forms that have the same one get one object.

    Args:
        scenario: it.
        in_columns: whether what has a columnar form takes it.
    """
    rewrites = tuple(REWRITES[sentence] for sentence in scenario.get("settings", ()) if sentence in REWRITES)
    return _built(json.dumps(scenario["topology"]), in_columns, rewrites)


@lru_cache(maxsize=len({form.in_columns for form in Form}))
def _built(steps: str, in_columns: bool, rewrites: tuple[str, ...]) -> FrozenTopology:
    return ScenarioTopology({"topology": json.loads(steps)}, in_columns=in_columns).build(rewrites)


def run_in_millrace(scenario: Scenario, form: Form, *, every_buffer_change: bool = False) -> Result:
    """The result of our test driver, with caching off."""
    built = build(scenario, in_columns=form.in_columns)
    sentences = scenario.get("settings", ())
    settings: dict[str, Any] = {
        "application.id": "app",
        "default.value.serde": VALUE,
        "foreign.key.join.settles": form.in_batches,
    }
    for sentence in sentences:
        settings |= SETTINGS[sentence]
    # Kafka Streams' driver tells partitioners of one partition, and takes whatever they choose.
    chosen = {
        step.get("topic", f"app-{step.get('name')}-repartition"): 3
        for step in scenario["topology"]
        if "partitioner" in step
    }
    with TopologyTestDriver(built, settings, partitions=chosen) as driver:
        topics: dict[str, TestInputTopic] = {}
        batches: list[tuple[str, list[TestRecord]]] = []
        for topic, key, value, timestamp, *rest in scenario["input"]:
            headers = [(name, text.encode()) for name, text in (rest[0] if rest else {}).items()]
            if topic == WALL_CLOCK:
                batches.append((topic, [TestRecord(None, None, timestamp)]))
                continue
            if topic not in topics:
                topics[topic] = driver.create_input_topic(topic, BytesSerde(), BytesSerde())
            if not form.in_batches or not batches or batches[-1][0] != topic:
                batches.append((topic, []))
            batches[-1][1].append(TestRecord(_bytes(key), _bytes(value), timestamp, headers))
        for topic, records in batches:
            if topic == WALL_CLOCK:
                driver.advance_wall_clock_time(records[0].timestamp or 0)
            else:
                topics[topic].pipe_batch(records)
        topics_found = _topics(driver, repartition="compare repartition topics" in sentences)
        _take_out_letters_of_dropped_records(topics_found)
        compare_buffers(scenario, topics_found, every_change=every_buffer_change)
        closing = {step["as"] for step in scenario["topology"] if step.get("emit") == "close"}
        return {
            "topics": topics_found,
            "stores": {
                **{
                    step["state"]: _added_entries(driver, step, scenario["input"])
                    for step in scenario["topology"]
                    if "state" in step
                },
                **{
                    step["store"]: _entries(driver, step, scenario["input"], by_time=step.get("on") in closing)
                    for step in scenario["topology"]
                    if "store" in step
                },
            },
            "dropped": sum(driver.dropped.values()),
            "description": built.describe(),
            "internal topics": _internal_topics(built),
        }


def settled(result: Result) -> Result:
    """What a result comes to in the end: the rows that the output topics and the stores then say there are.

    Joins by a foreign key drop responses to rows that have changed since, so what is in between depends on where
    batches end, on a cluster too, and so do the times at which the last results were made.
    """
    rows: dict[str, Any] = {}
    for topic, records in result["topics"].items():
        if topic == "dlq":
            rows[topic] = sorted(records)
        elif not topic.startswith("app-"):
            last = {record[0]: record[1] for record in records}
            rows |= {f"{topic} {key}": value for key, value in last.items() if value is not None}
    return {"rows": rows, "stores": {name: [row[:2] for row in found] for name, found in result["stores"].items()}}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _internal_topics(topology: FrozenTopology) -> dict[str, dict[str, str]]:
    """Settings of repartition and changelog topics by name."""
    specs = [
        *(repartition_topic(spec, "app", partitions=1) for spec in topology.repartition_topics),
        *(changelog_topic(store, "app", partitions=1) for part in topology.sub_topologies for store in part.stores),
    ]
    return {spec.name: dict(spec.settings) for spec in specs if spec is not None}


def compare_buffers(scenario: Scenario, topics: dict[str, list[list[Any]]], *, every_change: bool = False) -> None:
    """Leaves of the changelogs of buffers what can be compared: no timestamps (the producer's clock), and by key."""
    for step in scenario["topology"]:
        topic = f"app-{step.get('name')}-store-changelog"
        if step["op"] == "suppress" and topic in topics:
            rows = [[key, value, *rest] for key, value, _, *rest in topics[topic]]
            last = {key: number for number, (key, *_) in enumerate(rows)}
            kept = [row for number, row in enumerate(rows) if every_change or last[row[0]] == number]
            topics[topic] = sorted(kept, key=lambda row: str(row[0]))


def _topics(driver: TopologyTestDriver, *, repartition: bool) -> dict[str, list[list[Any]]]:
    topics: dict[str, list[list[Any]]] = {}
    for topic in sorted(driver.produced_topic_names()):
        if topic.endswith("-repartition") and not repartition:
            continue
        if topic in driver.changelogs:
            with_headers = WITHOUT_HEADERS.search(topic) is None
            topics[topic] = [_row(raw, with_headers=with_headers) for raw in driver.changelogs[topic]]
            if topic.endswith("-Buffer-changelog"):
                # Kafka Streams leaves the time of what it logs of such a buffer to the producer.
                topics[topic] = [[key, value, None, *rest] for key, value, _, *rest in topics[topic]]
            continue
        topics[topic] = [
            _row(record) for record in driver.create_output_topic(topic, BytesSerde(), BytesSerde()).read_records()
        ]
    return topics


def _row(record: RawRecord | TestRecord, *, with_headers: bool = True) -> list[Any]:
    row = [_hex(record.key), _hex(record.value), record.timestamp]
    return [*row, [_header(name, value) for name, value in record.headers]] if record.headers and with_headers else row


def _header(name: str, value: bytes | None) -> str:
    """A header; of an error only its name where the text is that of a Java exception."""
    if name.rpartition(".")[2] in {"exception", "message", "stacktrace"} or value is None:
        return name
    return f"{name}={value.decode()}"


def _added_entries(driver: TopologyTestDriver, step: dict[str, Any], records: list[list[Any]]) -> list[list[Any]]:
    """The entries of a store that was added for processors."""
    store = step["state"]
    match step["kind"]:
        case "key-value":
            return [[key, _json(value)] for key, value, _ in driver.key_value_store(store).entries()]
        case "window":
            return [[at.key, _json(value), at.start, at.end] for at, value, _ in driver.window_store(store).entries()]
        case _:
            return _entries(driver, {"store": store}, records)


def _entries(
    driver: TopologyTestDriver, step: dict[str, Any], records: list[list[Any]], *, by_time: bool = False
) -> list[list[Any]]:
    """The entries of a store; ``by_time`` as Kafka Streams has the windows of which it sends final results."""
    store = step["store"]
    if driver.store_kind(store) is StoreKind.VERSIONED:
        return _versions(driver, store, records)
    if driver.is_window_store(store):
        windows = driver.window_store(store)
        entries = [
            [windowed.key, _json(value), timestamp, windowed.start, windowed.end]
            for windowed, value, timestamp in windows.entries()
        ]
        return sorted(entries, key=lambda entry: (entry[3], entry[0])) if by_time else entries
    if driver.store_kind(store) is StoreKind.SESSION:
        return [[at.key, _json(value), at.start, at.end] for at, value in driver.session_store(store).all().items()]
    rows = driver.key_value_store(store)
    return [
        [_text(rows._key_serde.serialize(key)), _json(value), timestamp] for key, value, timestamp in rows.entries()
    ]


def _text(key: bytes) -> str:
    """A key as Kafka Streams' side reads it: text, or the bytes of a window's key."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def _versions(driver: TopologyTestDriver, store: str, records: list[list[Any]]) -> list[list[Any]]:
    """What the store says of each key that may be in it, now and around each time of the input."""
    keys = sorted({record[1] for record in records if record[1] is not None} | {"x", "y", "m0", "m1", "m2"})
    times = sorted({time for record in records for time in (record[3] - 1, record[3])} - {-1})
    found = []
    for key in keys:
        for as_of in (None, *times):
            version = driver.versioned_store(store).get_version(key, as_of)
            if version is not None:
                found.append([key, as_of, _json(version[0]), version[1]])
    return found


def _json(value: Any) -> str:
    return VALUE.serialize(value).decode()
