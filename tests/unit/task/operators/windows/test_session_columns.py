"""Sessions in columns give what sessions record by record give."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.dsl import Consumed, Grouped, Materialized, Produced, SessionWindows, StreamsBuilder
from millrace.dsl import aggregators as built_in
from millrace.serdes import BytesSerde, DoubleSerde, JsonSerde, SessionWindowedSerde, StringSerde
from millrace.task.operators.windows import session_aggregating
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.aggregators import BuiltInAggregator, StructAggregator
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
TYPED = JsonSerde(schema=pa.schema([("amount", pa.int64()), ("price", pa.float64()), ("user", pa.string())]))
AGGREGATORS: dict[str, BuiltInAggregator | StructAggregator] = {
    "count": built_in.count(),
    "count of a field": built_in.count("amount"),
    "sum": built_in.sum_("amount"),
    "sum of doubles": built_in.sum_("price"),
    "min": built_in.min_("price"),
    "max": built_in.max_("user"),
    "avg": built_in.avg("price"),
    "first": built_in.first("user"),
    "last": built_in.last("amount"),
    "collect": built_in.collect("amount"),
    "struct": built_in.struct(n=built_in.count(), last=built_in.last("user"), mean=built_in.avg("price")),
}
VALUES = st.none() | st.fixed_dictionaries(
    {
        "amount": st.none() | st.integers(0, 20),
        "price": st.none() | st.sampled_from([0.1, 0.2, 0.7, 1e16, -3.5]),
        "user": st.none() | st.sampled_from(["x", "y"]),
    }
)
# Steps of time, so that most records follow each other, and some come from long before.
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), VALUES, st.integers(-3, 9) | st.integers(-60, 25)),
    min_size=1,
    max_size=40,
)


def _topology(
    aggregator: Any, windows: SessionWindows, *, old_values: bool, retention: int | None = None
) -> FrozenTopology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TYPED)).group_by_key(Grouped.with_(TEXT, TYPED))
    store = Materialized.as_("store").with_key_serde(TEXT)
    if aggregator == AGGREGATORS["sum of doubles"]:
        # In JSON without a schema a sum of nothing is 0 in one way and 0.0 in the other.
        store = store.with_value_serde(DoubleSerde())
    table = grouped.windowed_by(windows).aggregate(
        aggregator, materialized=store if retention is None else store.with_retention(retention)
    )
    if old_values:
        # A filter sends a tombstone for what it has sent before, which it learns from the old value.
        table = table.filter(lambda key, value: len(str(value).removesuffix(".0")) % 2 == 0)
    table.to_stream().to("out", Produced.with_(SessionWindowedSerde(TEXT)))
    return builder.build()


def _run(topology: FrozenTopology, rows: list[tuple[Any, Any, int]], sizes: list[int]) -> Any:
    with TopologyTestDriver(topology, {"application.id": "app"}) as driver:
        topic = driver.create_input_topic("in", TEXT, TYPED)
        now, start, turn = 100, 0, 0
        records = []
        for key, value, step in rows:
            records.append(TestRecord(key, value, max(0, now + step)))
            now = max(now, now + step)
        while start < len(records):
            batch = records[start : start + sizes[turn % len(sizes)]]
            topic.pipe_batch(batch)
            start, turn = start + len(batch), turn + 1
        out = [
            (record.key, record.value, record.timestamp)
            for record in driver.create_output_topic("out", BytesSerde(), BytesSerde()).read_records()
        ]
        logged = sorted((raw.key, raw.value or b"", raw.timestamp) for raw in driver.changelogs["app-store-changelog"])
        return out, logged, repr(driver.session_store("store").all()), dict(driver.dropped), sorted(driver.lateness)


def _one_by_one(topology: FrozenTopology, rows: list[tuple[Any, Any, int]], sizes: list[int]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_aggregating, "takes_columns", lambda *_: False)
        return _run(topology, rows, sizes)


@pytest.mark.parametrize("name", AGGREGATORS)
@given(
    rows=ROWS,
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=3),
    gap=st.sampled_from([0, 2, 6, 15]),
    grace=st.sampled_from([0, 5, 40]),
    old_values=st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_columns_give_what_single_records_give(
    name: str, rows: list[tuple[Any, Any, int]], sizes: list[int], gap: int, grace: int, old_values: bool
) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, grace)
    topology = _topology(AGGREGATORS[name], windows, old_values=old_values)
    assert _run(topology, rows, sizes) == _one_by_one(topology, rows, sizes)


def test_records_that_follow_each_other_never_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    way = session_aggregating.SessionAggregateProcessor._one_by_one

    def watched(self: Any, records: Any, rows: Any, *more: Any, **options: Any) -> Any:
        taken.extend(rows.tolist())
        return way(self, records, rows, *more, **options)

    monkeypatch.setattr(session_aggregating.SessionAggregateProcessor, "_one_by_one", watched)
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 10)
    topology = _topology(built_in.count(), windows, old_values=False)
    # Within the session, at its start, out of order in it, behind the gap, and late.
    steps = [0, 3, -2, 4, 0, 6, 30, -40]
    out, _, _, dropped, _ = _run(topology, [("a", {"amount": 1}, step) for step in steps], [4])
    assert taken == []
    assert len(out) == 4
    assert sum(dropped.values()) == 1
    # One that makes one session of two goes record by record, with all records of its key.
    _run(topology, [(key, {"amount": 1}, step) for key, step in (("a", 0), ("b", 0), ("a", 10), ("a", -5))], [4])
    assert taken == [0, 2, 3]


def test_a_session_that_comes_and_goes_within_a_batch_is_never_taken_back() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(10, 10)
    topology = _topology(built_in.count(), windows, old_values=False)
    out, *_ = _one_by_one(topology, [("a", {"amount": 1}, step) for step in (0, 5, -2, 3)], [4])
    assert [value is None for _, value, _ in out] == [False]
