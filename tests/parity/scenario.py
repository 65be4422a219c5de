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

Every result holds the records of all topics as bytes (changelogs and dead letters included), the contents of the
stores, and how many records were dropped. The changelogs of suppression buffers are compared as compaction leaves them,
unless ``every_buffer_change`` asks for all of it: Kafka Streams writes the keys that a commit changed in the order of a
hash set, and a batch is one commit.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from millrace.kafka.jars import STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import find_java
from millrace.serdes import BytesSerde
from millrace.task.records import Headers
from millrace.testing import TestInputTopic, TestRecord, TopologyTestDriver
from millrace.topology.stores import StoreKind
from tests.parity.scenario_topology import VALUE, ScenarioTopology

Scenario = dict[str, Any]
Result = dict[str, Any]

JAVA_SOURCE = Path(__file__).parent / "java" / "RunScenarios.java"
WALL_CLOCK = "wall clock"
JAVA_LIMIT_S = 600
SETTINGS: dict[str, dict[str, Any]] = {
    "continue after deserialization errors": {"default.deserialization.exception.handler": "continue"},
    "continue after processing errors": {"processing.exception.handler": "continue"},
    "compare headers": {},
    "compare repartition topics": {},
    # Only then Kafka Streams reads the old values of windows from their store; otherwise those of new windows are what
    # their initializer gives.
    "caches of one byte": {},
    "dead letters": {"errors.dead.letter.queue.topic.name": "dlq"},
    "null results at most once a second": {"outer.join.emit.interval.ms": 1000},
    "single store self join": {},
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


def run_in_kafka_streams(scenarios: Sequence[Scenario], *, every_buffer_change: bool = False) -> list[Result]:
    """The results of Kafka Streams' test driver, in one JVM."""
    classes = class_path(resolve_jars(STREAMS_JARS))
    lines = "".join(json.dumps(scenario) + "\n" for scenario in scenarios)
    done = subprocess.run(
        [str(find_java()), "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", classes, str(JAVA_SOURCE)],
        input=lines,
        capture_output=True,
        text=True,
        timeout=JAVA_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"Kafka Streams failed at a scenario:\n{done.stderr[-3000:]}")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    for scenario, result in zip(scenarios, results, strict=True):
        _compare_buffers(scenario, result["topics"], every_change=every_buffer_change)
    return results


def run_in_millrace(scenario: Scenario, form: Form, *, every_buffer_change: bool = False) -> Result:
    """The result of our test driver, with caching off."""
    topology = ScenarioTopology(scenario, in_columns=form.in_columns)
    settings: dict[str, Any] = {"application.id": "app"}
    for sentence in scenario.get("settings", ()):
        settings |= SETTINGS[sentence]
    rewrites = ("single-store-self-join",) if "single store self join" in scenario.get("settings", ()) else ()
    with TopologyTestDriver(topology.build(rewrites), settings) as driver:
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
        topics_found = _topics(driver, scenario.get("settings", ()))
        _compare_buffers(scenario, topics_found, every_change=every_buffer_change)
        return {
            "topics": topics_found,
            "stores": {
                **{step["state"]: _added_entries(driver, step) for step in scenario["topology"] if "state" in step},
                **{step["store"]: _entries(driver, step) for step in scenario["topology"] if "store" in step},
            },
            "dropped": sum(driver.dropped.values()),
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


def _compare_buffers(scenario: Scenario, topics: dict[str, list[list[Any]]], *, every_change: bool) -> None:
    """Leaves of the changelogs of buffers what can be compared: no timestamps (the producer's clock), and by key."""
    for step in scenario["topology"]:
        topic = f"app-{step.get('name')}-store-changelog"
        if step["op"] == "suppress" and topic in topics:
            rows = [[key, value, *rest] for key, value, _, *rest in topics[topic]]
            last = {key: number for number, (key, *_) in enumerate(rows)}
            kept = [row for number, row in enumerate(rows) if every_change or last[row[0]] == number]
            topics[topic] = sorted(kept, key=lambda row: str(row[0]))


def _topics(driver: TopologyTestDriver, settings: Sequence[str]) -> dict[str, list[list[Any]]]:
    headers = "compare headers" in settings
    topics: dict[str, list[list[Any]]] = {}
    for topic in sorted(driver.produced_topic_names()):
        if topic.endswith("-repartition") and "compare repartition topics" not in settings:
            continue
        if topic in driver.changelogs:
            topics[topic] = [[_hex(raw.key), _hex(raw.value), raw.timestamp] for raw in driver.changelogs[topic]]
            for compared, raw in zip(topics[topic], driver.changelogs[topic], strict=True):
                compared.extend([_texts(raw.headers)] if raw.headers else [])
            continue
        records = driver.create_output_topic(topic, BytesSerde(), BytesSerde()).read_records()
        topics[topic] = [[_hex(record.key), _hex(record.value), record.timestamp] for record in records]
        if headers and topic != "dlq":
            for row, record in zip(topics[topic], records, strict=True):
                row.append(_texts(record.headers))
        if topic == "dlq":
            for row, record in zip(topics[topic], records, strict=True):
                row.append([_header(name, value) for name, value in record.headers])
    return topics


def _texts(headers: Headers) -> list[str]:
    return [f"{name}={_hex(value)}" for name, value in headers]


def _header(name: str, value: bytes | None) -> str:
    if name.rpartition(".")[2] in {"topic", "partition", "offset"} and value is not None:
        return f"{name}={value.decode()}"
    return name


def _added_entries(driver: TopologyTestDriver, step: dict[str, Any]) -> list[list[Any]]:
    """The entries of a store that was added for processors."""
    store = step["state"]
    match step["kind"]:
        case "key-value":
            return [[key, _json(value)] for key, value, _ in driver.key_value_store(store).entries()]
        case "window":
            return [[at.key, _json(value), at.start, at.end] for at, value, _ in driver.window_store(store).entries()]
        case _:
            return _entries(driver, {"store": store})


def _entries(driver: TopologyTestDriver, step: dict[str, Any]) -> list[list[Any]]:
    store = step["store"]
    if driver.is_window_store(store):
        windows = driver.window_store(store)
        return [
            [windowed.key, _json(value), timestamp, windowed.start, windowed.end]
            for windowed, value, timestamp in windows.entries()
        ]
    if driver.store_kind(store) is StoreKind.SESSION:
        return [[at.key, _json(value), at.start, at.end] for at, value in driver.session_store(store).all().items()]
    return [[key, _json(value), timestamp] for key, value, timestamp in driver.key_value_store(store).entries()]


def _json(value: Any) -> str:
    return VALUE.serialize(value).decode()
