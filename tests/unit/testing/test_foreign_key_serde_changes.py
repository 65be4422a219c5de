"""Joins by a foreign key after a compatible change of the left table's serde (KAFKA-15303, KAFKA-13386)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    KTable,
    Materialized,
    Produced,
    Stores,
    StreamsBuilder,
    Suppressed,
    TableJoined,
)
from millrace.metrics import DropReason
from millrace.serdes import AvroSerde, BytesSerde, Serde, StringSerde, serde_from
from millrace.state import TaskPosition, TaskState
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()


def _json(**defaults: Any) -> Serde:
    """JSON whose values have fields with defaults, which are written."""
    return serde_from(
        lambda value: json.dumps(value, sort_keys=True).encode(), lambda data: {**defaults, **json.loads(data)}
    )


def _avro(*fields: dict[str, Any]) -> Serde:
    names = [{"name": "fk", "type": "string"}, {"name": "v", "type": "string"}]
    return AvroSerde({"type": "record", "name": "Row", "fields": [*names, *fields]})


SERDES: dict[str, tuple[Serde, Serde]] = {
    "a field with a default": (_json(), _json(extra=0)),
    "another order of the fields": (
        serde_from(lambda value: json.dumps(value).encode(), json.loads),
        serde_from(lambda value: json.dumps(dict(reversed(value.items()))).encode(), json.loads),
    ),
}
LEFT: dict[str, Callable[[StreamsBuilder, Serde], KTable]] = {
    "a source": lambda builder, serde: builder.table("left", Consumed.with_(TEXT, serde), _store("rows", serde)),
    "a source without a name": lambda builder, serde: builder.table("left", Consumed.with_(TEXT, serde)),
    "a stream": lambda builder, serde: builder.stream("left", Consumed.with_(TEXT, serde)).to_table(
        _store("rows", serde)
    ),
    "a versioned table": lambda builder, serde: builder.table(
        "left",
        Consumed.with_(TEXT, serde),
        Materialized.as_(Stores.persistent_versioned_key_value_store("rows", 1_000))
        .with_key_serde(TEXT)
        .with_value_serde(serde),
    ),
    "a filter": lambda builder, serde: builder.table("left", Consumed.with_(TEXT, serde), _store("rows", serde)).filter(
        lambda key, value: value["v"] != "hidden"
    ),
    "a filter that is stored": lambda builder, serde: builder.table(
        "left", Consumed.with_(TEXT, serde), _store("rows", serde)
    ).filter(lambda key, value: value["v"] != "hidden", _store("kept", serde)),
    "mapped values that are stored": lambda builder, serde: builder.table(
        "left", Consumed.with_(TEXT, serde), _store("rows", serde)
    ).map_values(lambda key, value: value, _store("mapped", serde)),
    "mapped values": lambda builder, serde: builder.table(
        "left", Consumed.with_(TEXT, serde), _store("rows", serde)
    ).map_values(lambda key, value: value, _with(serde)),
    "a join of tables": lambda builder, serde: builder.table(
        "left", Consumed.with_(TEXT, serde), _store("rows", serde)
    ).left_join(builder.table("other", Consumed.with_(TEXT, TEXT)), lambda row, _: row, _with(serde)),
    "an aggregation": lambda builder, serde: (
        builder.stream("left", Consumed.with_(TEXT, serde))
        .group_by_key(Grouped.with_(TEXT, serde))
        .reduce(lambda old, new: new, _store("rows", serde))
    ),
    "a grouped table": lambda builder, serde: (
        builder.table("left", Consumed.with_(TEXT, serde), _store("rows", serde))
        .group_by(lambda key, value: (key, value), Grouped.with_(TEXT, serde))
        .reduce(lambda old, new: new, lambda old, new: old, _store("regrouped", serde))
    ),
    "a suppressed table": lambda builder, serde: builder.table(
        "left", Consumed.with_(TEXT, serde), _store("rows", serde)
    ).suppress(Suppressed.until_time_limit(0, BufferConfig.unbounded())),
}


def _with(serde: Serde) -> Materialized:
    """Serdes without a store."""
    return Materialized.with_(TEXT, serde)


def _store(name: str, serde: Serde) -> Materialized:
    return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(serde)


def _topology(left: str, serde: Serde, kind: str) -> FrozenTopology:
    builder = StreamsBuilder()
    rows = LEFT[left](builder, serde)
    foreign = builder.table("right", Consumed.with_(TEXT, TEXT), _store("foreign", TEXT))
    join = rows.join if kind == "inner" else rows.left_join
    joined = join(
        foreign,
        lambda row, other: f"{row['v']}+{other}",
        Materialized.as_("joined").with_value_serde(TEXT),
        foreign_key_extractor=lambda row: row["fk"],
        table_joined=TableJoined.as_("fk"),
    )
    joined.to_stream().to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


class _Run:
    """A driver over a directory that outlives it."""

    def __init__(self, topology: FrozenTopology, directory: Path, serde: Serde) -> None:
        self.driver = TopologyTestDriver(topology, {"statestore.cache.max.bytes": 0}, state_directory=directory)
        self.left = self.driver.create_input_topic("left", TEXT, serde)
        self.right = self.driver.create_input_topic("right", TEXT, TEXT)
        self._out = self.driver.create_output_topic("out", TEXT, TEXT)

    def outputs(self) -> list[tuple[Any, Any]]:
        return self._out.read_key_values()

    def internal(self) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
        """What the two sides of the join have written to each other."""
        names = sorted(name for name in self.driver.produced_topic_names() if "subscription-re" in name)
        return {
            name: self.driver.create_output_topic(name, BytesSerde(), BytesSerde()).read_key_values() for name in names
        }

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("change", SERDES)
@pytest.mark.parametrize("left", LEFT)
def test_a_change_of_a_foreign_row_reaches_rows_from_before_a_compatible_change_of_their_serde(
    left: str, change: str, kind: str, tmp_path: Path
) -> None:
    before, after = SERDES[change]
    with _Run(_topology(left, before, kind), tmp_path, before) as run:
        run.right.pipe_input("f", "R1", 1)
        for key in ("p1", "p2", "p3"):
            run.left.pipe_input(key, {"fk": "f", "v": key}, 2)
        assert run.outputs() == [("p1", "p1+R1"), ("p2", "p2+R1"), ("p3", "p3+R1")]
    with _Run(_topology(left, after, kind), tmp_path, after) as run:
        run.right.pipe_input("f", "R2", 3)
        assert run.outputs() == [("p1", "p1+R2"), ("p2", "p2+R2"), ("p3", "p3+R2")]
        assert run.driver.dropped == {}
        # A row that is written now is subscribed as the serde of today writes it.
        run.left.pipe_input("p2", {"fk": "f", "v": "new"}, 4)
        run.right.pipe_input("f", "R3", 5)
        assert [each for each in run.outputs() if each != ("p2", None)] == [
            ("p2", "new+R2"),
            ("p1", "p1+R3"),
            ("p2", "new+R3"),
            ("p3", "p3+R3"),
        ]
        assert run.driver.dropped == {}
    with _Run(_topology(left, after, kind), tmp_path, after) as run:
        run.right.pipe_batch([TestRecord("f", "R5", 8), TestRecord("f", None, 9)])
        rows = (("p1", "p1"), ("p2", "new"), ("p3", "p3"))
        nothing = [(key, None if kind == "inner" else f"{value}+None") for key, value in rows]
        assert run.outputs() == [*((key, f"{value}+R5") for key, value in rows), *nothing]


def test_avro_with_a_new_field_that_has_a_default(tmp_path: Path) -> None:
    before, after = _avro(), _avro({"name": "extra", "type": "long", "default": 7})
    # Bare Avro is read by the schema that it was written with, so the new serde is told of the old one.
    after = serde_from(after.serialize, lambda data: _either(data, after, before))
    with _Run(_topology("a source", before, "inner"), tmp_path, before) as run:
        run.right.pipe_input("f", "R1", 1)
        run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
    with _Run(_topology("a source", after, "inner"), tmp_path, after) as run:
        run.right.pipe_input("f", "R2", 3)
        assert run.outputs() == [("p", "a+R2")]


def _either(data: bytes, new: Serde, old: Serde) -> Any:
    try:
        return new.deserialize(data)
    except Exception:
        return {**old.deserialize(data), "extra": 7}


def test_what_the_two_sides_write_to_each_other_stays_as_it_is(tmp_path: Path) -> None:
    before, after = SERDES["a field with a default"]
    written = []
    for name, serde in (("old", before), ("new", after)):
        directory = tmp_path / name
        with _Run(_topology("a source", before, "inner"), directory, before) as run:
            run.right.pipe_input("f", "R1", 1)
            run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
        with _Run(_topology("a source", serde, "inner"), directory, serde) as run:
            run.right.pipe_input("f", "R2", 3)
            written.append(run.internal())
    assert written[0] == written[1]
    assert len(written[0]) == 1


def test_a_response_to_a_row_that_has_changed_is_stale_as_before(tmp_path: Path) -> None:
    before, after = SERDES["a field with a default"]
    with _Run(_topology("a source", before, "inner"), tmp_path, before) as run:
        run.right.pipe_input("f", "R1", 1)
        run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
    with _Run(_topology("a source", after, "inner"), tmp_path, after) as run:
        # In one batch: the response to the change of the foreign row comes when the row has changed.
        run.driver.pipe_batch(
            [(run.right, TestRecord("f", "R2", 3)), (run.left, TestRecord("p", {"fk": "f", "v": "b"}, 4))]
        )
        assert run.outputs() == [("p", "b+R2")]
        assert run.driver.dropped == {DropReason.STALE_RESPONSE: 1}


def test_rows_that_were_restored_from_a_changelog_are_those_that_were_subscribed(tmp_path: Path) -> None:
    before, after = SERDES["a field with a default"]
    with _Run(_topology("a stream", before, "inner"), tmp_path / "first", before) as run:
        run.right.pipe_input("f", "R1", 1)
        run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
        changelogs = dict(run.driver.changelogs)
    topology = _topology("a stream", after, "inner")
    for part in topology.sub_topologies:
        state = TaskState.open(tmp_path / "second" / f"{part.number}_0", part.stores)
        for spec in part.stores:
            records = changelogs.get(f"topology-test-driver-{spec.name}-changelog", [])
            stamps = np.array([record.timestamp for record in records], dtype=np.int64)
            keys = [record.key for record in records if record.key is not None]
            state.restore_batch(spec.name, keys, [record.value for record in records], stamps)
        state.commit(TaskPosition())
        state.close()
    with _Run(topology, tmp_path / "second", after) as run:
        run.right.pipe_input("f", "R2", 3)
        assert run.outputs() == [("p", "a+R2")]


def test_a_computed_row_is_subscribed_again_once(tmp_path: Path) -> None:
    before, after = SERDES["a field with a default"]
    with _Run(_topology("mapped values", before, "inner"), tmp_path, before) as run:
        run.right.pipe_input("f", "R1", 1)
        run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
    with _Run(_topology("mapped values", after, "inner"), tmp_path, after) as run:
        run.right.pipe_input("f", "R2", 3)
        run.right.pipe_input("f", "R3", 4)
        assert run.outputs() == [("p", "a+R2"), ("p", "a+R3")]
        assert run.driver.dropped == {}
        assert [len(written) for written in run.internal().values()] == [1, 3]


def test_a_serde_that_writes_the_same_in_two_ways_is_not_asked_for_ever(tmp_path: Path) -> None:
    count = iter(range(1_000))
    restless = serde_from(lambda value: json.dumps({**value, "n": next(count)}).encode(), json.loads)
    with _Run(_topology("mapped values", restless, "inner"), tmp_path, restless) as run:
        run.right.pipe_input("f", "R1", 1)
        run.left.pipe_input("p", {"fk": "f", "v": "a"}, 2)
        run.right.pipe_input("f", "R2", 3)
        # As in Kafka Streams.
        assert run.outputs() == []
        assert run.driver.dropped == {DropReason.STALE_RESPONSE: 2}
