from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    SessionWindows,
    StoreBackend,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
)
from millrace.dsl import aggregators as agg
from millrace.errors import TopologyError
from millrace.serdes import IntegerSerde, JsonSerde, Serde, StringSerde
from millrace.topology.diff import ChangeKind, TopologyDiff, diff
from millrace.topology.topology import FrozenTopology
from tests.unit.topology.catalogue import CATALOGUE


def build(write: Callable[[StreamsBuilder], object]) -> FrozenTopology:
    builder = StreamsBuilder()
    write(builder)
    return builder.build()


def compare(old: FrozenTopology, new: FrozenTopology) -> TopologyDiff:
    return diff(json.loads(json.dumps(old.summary())), new)


def counting(*, filtered: bool, named: bool) -> FrozenTopology:
    def write(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        if filtered:
            stream = stream.filter(lambda key, value: True)
        grouped = stream.map(lambda key, value: (key, value)).group_by_key(Grouped.as_("by-key") if named else None)
        grouped.count(Materialized.as_("counts") if named else None).to_stream().to("out")

    return build(write)


def windowed(size_s: int, grace_s: int = 0, store: str = "counts") -> FrozenTopology:
    windows = TimeWindows.of_size_and_grace(timedelta(seconds=size_s), timedelta(seconds=grace_s))
    return build(
        lambda b: b.stream("in").group_by_key().windowed_by(windows).count(Materialized.as_(store)).to_stream().to("o")
    )


def test_an_operator_before_a_generated_store_orphans_it_and_says_where_it_went() -> None:
    """Case S13: generated names."""
    found = compare(counting(filtered=False, named=False), counting(filtered=True, named=False))
    assert found.loses_state
    orphaned = {change.subject: change.text for change in found.of_kind(ChangeKind.ORPHANED)}
    assert set(orphaned) == {
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002",
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
    }
    moved = orphaned["KSTREAM-AGGREGATE-STATE-STORE-0000000002"]
    assert "KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog" in moved
    assert "KSTREAM-AGGREGATE-STATE-STORE-0000000003" in moved
    assert {change.subject for change in found.of_kind(ChangeKind.NEW)} == {
        "KSTREAM-AGGREGATE-STATE-STORE-0000000003",
        "KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
    }


def test_history_and_grace_may_change_and_a_versioned_store_is_not_a_plain_one() -> None:
    def joined(history: int | None, grace: int | None) -> FrozenTopology:
        def write(builder: StreamsBuilder) -> None:
            stored = "users" if history is None else Stores.persistent_versioned_key_value_store("users", history)
            users = builder.table("users", None, Materialized.as_(stored))
            options = Joined.as_("with-user")
            options = options if grace is None else options.with_grace_period(grace)
            builder.stream("in").join(users, lambda value, user: value, joined=options).to("out")

        return build(write)

    longer = compare(joined(1000, 10), joined(2000, 20))
    assert not longer.loses_state
    texts = {change.subject: change.text for change in longer.of_kind(ChangeKind.CHANGED)}
    assert set(texts) == {"users", "with-user-Buffer"}
    assert "keeps its content; retention 1000 becomes 2000" in texts["users"]
    assert "keeps its content; grace 10 becomes 20" in texts["with-user-Buffer"]
    assert compare(joined(None, None), joined(1000, None)).of_kind(ChangeKind.INCOMPATIBLE)[0].subject == "users"
    assert compare(joined(1000, 10), joined(1000, None)).of_kind(ChangeKind.ORPHANED)[0].subject == "with-user-Buffer"


def test_an_operator_before_a_named_store_changes_nothing() -> None:
    """Case S13: explicit names."""
    found = compare(counting(filtered=False, named=True), counting(filtered=True, named=True))
    assert found.changes == ()
    assert str(found) == "the state is compatible"


def test_another_window_size_under_the_same_name_is_incompatible() -> None:
    found = compare(windowed(60), windowed(30))
    (change,) = found.of_kind(ChangeKind.INCOMPATIBLE)
    assert change.subject == "counts"
    assert "window size 60000 becomes 30000" in change.text


def test_a_longer_grace_keeps_the_state() -> None:
    found = compare(windowed(60), windowed(60, grace_s=10))
    assert not found.loses_state
    assert any("grace 0 becomes 10000" in change.text for change in found.of_kind(ChangeKind.CHANGED))


def test_another_aggregation_under_the_same_name_is_incompatible() -> None:
    def aggregating(aggregator: Any) -> FrozenTopology:
        consumed = Consumed.with_(StringSerde(), JsonSerde())
        return build(
            lambda b: (
                b.stream("in", consumed).group_by_key().aggregate(aggregator, materialized=Materialized.as_("totals"))
            )
        )

    found = compare(aggregating(agg.sum_("amount")), aggregating(agg.max_("amount")))
    assert "aggregation sum(amount) becomes max(amount)" in str(found)
    assert found.loses_state


def test_a_generated_name_that_now_belongs_to_another_input_is_incompatible() -> None:
    def count_of(topic: str) -> FrozenTopology:
        return build(lambda b: b.stream(topic).group_by_key().count().to_stream().to("out"))

    found = compare(count_of("a"), count_of("b"))
    assert "inputs ['a'] becomes ['b']" in str(found)
    assert found.loses_state


def test_a_summary_of_another_version_is_refused() -> None:
    with pytest.raises(TopologyError, match="version 99"):
        diff({"version": 99}, windowed(60))


def test_the_fingerprint_ignores_code_and_sees_names_windows_and_topics() -> None:
    def filtered(predicate: Any, topic: str = "in") -> FrozenTopology:
        return build(lambda b: b.stream(topic).filter(predicate).to("out"))

    assert filtered(lambda key, value: value > 1).fingerprint == filtered(lambda key, value: value > 2).fingerprint
    assert filtered(lambda key, value: True).fingerprint != filtered(lambda key, value: True, "other").fingerprint
    assert windowed(60).fingerprint != windowed(30).fingerprint
    assert windowed(60).fingerprint != windowed(60, store="others").fingerprint


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    assert windowed(60).fingerprint == "26f49ce40e1f"


def foreign_key_join(
    *, key: Serde | None = None, other_key: Serde | None = None, name: str | None = "fk"
) -> FrozenTopology:
    def write(builder: StreamsBuilder) -> None:
        orders = builder.table("orders", Consumed.with_(key), Materialized.as_("orders"))
        customers = builder.table("customers", Consumed.with_(other_key), Materialized.as_("customers"))
        options = None if name is None else TableJoined.as_(name)
        orders.join(
            customers,
            lambda order, customer: order,
            Materialized.as_("joined"),
            foreign_key_extractor=lambda order: order,
            table_joined=options,
        )

    return build(write)


def test_the_subscriptions_of_a_foreign_key_join_depend_on_both_keys() -> None:
    text, integers = StringSerde(), IntegerSerde()
    before = foreign_key_join(key=text, other_key=text)
    assert compare(before, before).changes == ()
    for changed in (
        foreign_key_join(key=integers, other_key=text),
        foreign_key_join(key=text, other_key=integers),
    ):
        found = {change.subject: change.text for change in compare(before, changed).of_kind(ChangeKind.INCOMPATIBLE)}
        assert "StringSerde and StringSerde becomes" in found["fk-subscription-store"]
        assert before.fingerprint != changed.fingerprint


def test_a_foreign_key_join_that_loses_its_name_orphans_its_topics_and_store() -> None:
    found = compare(foreign_key_join(), foreign_key_join(name=None))
    assert {change.subject for change in found.of_kind(ChangeKind.ORPHANED)} == {
        "fk-subscription-store",
        "fk-subscription-registration-topic",
        "fk-subscription-response-topic",
    }


def suppressed(suppress: Suppressed | None, *, on_close: bool = False) -> FrozenTopology:
    def write(builder: StreamsBuilder) -> None:
        windows = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5))
        if on_close:
            windows = windows.emit_strategy(EmitStrategy.on_window_close())
        counts = windows.count(Materialized.as_("counts"))
        (counts if suppress is None else counts.suppress(suppress.with_name("held"))).to_stream().to("out")

    return build(write)


def test_a_buffer_of_another_order_is_incompatible_and_other_limits_are_a_change() -> None:
    final = suppressed(Suppressed.until_window_closes(BufferConfig.unbounded()))
    limited = suppressed(Suppressed.until_time_limit(5, BufferConfig.max_records(10)))
    found = compare(limited, final)
    assert [change.subject for change in found.of_kind(ChangeKind.INCOMPATIBLE)] == ["held-store"]
    assert "suppression until time limit becomes window close" in str(found)
    longer = suppressed(Suppressed.until_time_limit(7, BufferConfig.max_records(10).with_max_bytes(99)))
    changes = compare(limited, longer)
    assert not changes.loses_state
    assert [change.text for change in changes.of_kind(ChangeKind.CHANGED)] == [
        "store held-store keeps its content; wait 5 becomes 7",
        "store held-store keeps its content; most bytes None becomes 99",
    ]


def test_sending_results_on_close_is_a_change_that_loses_nothing() -> None:
    found = compare(suppressed(None), suppressed(None, on_close=True))
    assert str(found) == (
        "changed: store counts keeps its content; results are sent on window update becomes on window close"
    )


def joined(*, before_s: int, kind: str = "left_join", logged: bool = True) -> FrozenTopology:
    def write(builder: StreamsBuilder) -> None:
        one, two = builder.stream("one"), builder.stream("two")
        windows = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=5)).before(timedelta(seconds=before_s))
        options = StreamJoined.as_("near")
        options = options if logged else options.with_logging_disabled()
        getattr(one, kind)(two, lambda left, right: left, windows, options).to("out")

    return build(write)


def table(options: Materialized) -> FrozenTopology:
    return build(lambda b: b.table("in", materialized=options).to_stream().to("out"))


def changes(old: FrozenTopology, new: FrozenTopology) -> list[str]:
    return str(old.diff(new)).splitlines()


def test_other_bounds_of_a_join_keep_its_buffers_and_change_who_is_a_partner() -> None:
    found = joined(before_s=5).diff(joined(before_s=60))
    assert not found.loses_state
    assert "store near-this-join-store keeps its content; window before 5000 becomes 60000: " in str(found)
    assert any("retention 10000 becomes 65000" in change.text for change in found.changes)


def test_another_kind_of_join_orphans_the_store_of_waiting_records() -> None:
    found = joined(before_s=5).diff(joined(before_s=5, kind="outer_join"))
    assert {change.subject for change in found.of_kind(ChangeKind.ORPHANED)} == {
        "near-this-join-store",
        "near-left-shared-join-store",
    }
    assert found.compatible == ("near-outer-other-join-store",)


def test_sessions_with_another_gap_are_read_as_something_else_and_with_more_grace_they_are_not() -> None:
    def sessions(gap_s: int, grace_s: int) -> FrozenTopology:
        windows = SessionWindows.of_inactivity_gap_and_grace(timedelta(seconds=gap_s), timedelta(seconds=grace_s))
        options = Materialized.as_("sessions").with_retention(timedelta(hours=1))
        return build(lambda b: b.stream("in").group_by_key().windowed_by(windows).count(options).to_stream().to("o"))

    assert changes(sessions(60, 0), sessions(90, 0)) == [
        "incompatible: store sessions would be read as something else: inactivity gap 60000 becomes 90000"
    ]
    assert changes(sessions(60, 0), sessions(60, 5)) == [
        "changed: store sessions keeps its content; grace 0 becomes 5000: later records count from now on, or no longer"
    ]


def test_another_serde_is_incompatible_and_another_topic_of_a_table_is_told() -> None:
    text = Materialized.as_("table").with_value_serde(StringSerde())
    assert changes(table(text), table(text.with_value_serde(JsonSerde()))) == [
        "incompatible: store table would be read as something else: value serde StringSerde becomes JsonSerde"
    ]
    moved = build(lambda b: b.table("other", materialized=text).to_stream().to("out"))
    assert changes(table(text), moved) == ["changed: store table keeps its content; inputs ['in'] becomes ['other']"]


def test_a_store_moves_between_backends_with_its_changelog_and_without_one_starts_empty() -> None:
    on_disk = Materialized.as_("table")
    in_memory = on_disk.with_store_type(StoreBackend.MEMORY)
    assert changes(table(on_disk), table(in_memory)) == [
        "changed: store table moves from rocksdb to memory, and is restored from its changelog"
    ]
    unlogged = table(on_disk.with_logging_disabled()).diff(table(in_memory.with_logging_disabled()))
    assert unlogged.loses_state
    assert str(unlogged) == (
        "incompatible: store table moves from rocksdb to memory and starts empty, since it has no changelog"
    )
    assert changes(table(on_disk), table(on_disk.with_logging_disabled())) == [
        "changed: store table keeps its content; logging a changelog becomes no changelog of its own"
    ]


def test_what_stays_is_told_beside_what_changes() -> None:
    def both(size_s: int) -> FrozenTopology:
        def write(builder: StreamsBuilder) -> None:
            grouped = builder.stream("in").group_by_key()
            windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=size_s))
            grouped.windowed_by(windows).count(Materialized.as_("windowed"))
            grouped.count(Materialized.as_("plain"))

        return build(write)

    assert str(both(5).diff(both(5))) == "the state is compatible"
    assert changes(both(5), both(6))[-1] == "compatible: plain stays as it is"


def test_a_table_join_grouped_table_and_foreign_key_join_that_are_taken_out_say_what_they_orphan() -> None:
    def write(builder: StreamsBuilder) -> None:
        one = builder.table("one", materialized=Materialized.as_("one"))
        two = builder.table("two", materialized=Materialized.as_("two"))
        one.join(two, lambda left, right: left, Materialized.as_("both"))
        one.group_by(lambda key, value: (value, value), Grouped.as_("by-value")).count(Materialized.as_("grouped"))

    def only_tables(builder: StreamsBuilder) -> None:
        builder.table("one", materialized=Materialized.as_("one"))
        builder.table("two", materialized=Materialized.as_("two"))

    found = build(write).diff(build(only_tables))
    assert {change.subject for change in found.of_kind(ChangeKind.ORPHANED)} == {
        "both",
        "grouped",
        "by-value-repartition",
    }
    assert [change.text for change in found.of_kind(ChangeKind.CHANGED)] == [
        "store two keeps its content; sub-topology 0 becomes 1"
    ]
    assert found.compatible == ("one",)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_topology_is_compatible_with_itself_and_orphans_all_it_has_where_another_takes_its_place(
    name: str,
) -> None:
    topology, other = build(CATALOGUE[name]), counting(filtered=False, named=True)
    assert str(topology.diff(topology)) == "the state is compatible"
    stores = {spec.name for part in topology.sub_topologies for spec in part.stores} - {"counts"}
    topics = {spec.name for spec in topology.repartition_topics} - {"by-key-repartition"}
    orphaned = {change.subject for change in topology.diff(other).of_kind(ChangeKind.ORPHANED)}
    assert orphaned == stores | topics


class Pass(Processor[Any, Any]):
    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


def seen(size_ms: int, retention_ms: int, *, twice: bool = False) -> FrozenTopology:
    supplier = Stores.persistent_window_store("seen", retention_ms, size_ms)

    def write(builder: StreamsBuilder) -> None:
        builder.add_state_store(Stores.window_store_builder(supplier, StringSerde(), StringSerde()))
        builder.stream("in").process(Pass, "seen", named="first").to("out")
        if twice:
            builder.stream("more").process(Pass, "seen", named="second").to("out")

    return build(write)


def test_the_store_of_a_processor_keeps_its_shape_and_its_windows() -> None:
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), StringSerde(), StringSerde())

    def write(builder: StreamsBuilder) -> None:
        builder.add_state_store(plain)
        builder.stream("in").process(Pass, "seen").to("out")

    assert compare(seen(10, 100), seen(10, 100)).changes == ()
    assert seen(10, 100).fingerprint == seen(10, 100).fingerprint
    longer = compare(seen(10, 100), seen(10, 200))
    assert not longer.loses_state
    assert "retention 100 becomes 200" in str(longer)
    assert "window size 10 becomes 20" in str(compare(seen(10, 100), seen(20, 100)))
    assert "shape window becomes key-value" in str(compare(seen(10, 100), build(write)))
    shared = compare(seen(10, 100), seen(10, 100, twice=True))
    assert not shared.loses_state
    assert "['in', 'more']" in str(shared)


def test_a_processor_that_looks_into_a_table_does_not_own_its_store() -> None:
    def write(builder: StreamsBuilder, *, looks: bool) -> None:
        if looks:
            builder.stream("in").process(Pass, "users").to("out")
        builder.table("users-in", materialized=Materialized.as_("users"))

    alone, looked_into = build(lambda b: write(b, looks=False)), build(lambda b: write(b, looks=True))
    assert looked_into.summary()["stores"]["users"]["operator"] == "TableSource"
    assert looked_into.summary()["stores"]["users"]["origin"] == ["users-in"]
    assert compare(alone, looked_into).changes == ()
