"""What joins of two streams accept, and what they make of their options."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Consumed, Joined, JoinWindows, Repartitioned, StoreBackend, StreamJoined, StreamsBuilder
from millrace.errors import ArgumentError, TopologyError
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.topology.stores import StoreSpec

TEXT, NUMBER, JSON = StringSerde(), LongSerde(), JsonSerde()
NEAR = JoinWindows.of_time_difference_and_grace(10, 5)


def both(value: Any, other: Any) -> Any:
    return value, other


def stores(builder: StreamsBuilder) -> dict[str, StoreSpec]:
    return {store.name: store for part in builder.build().sub_topologies for store in part.stores}


def test_stores_take_the_serdes_of_their_streams_and_keep_window_and_grace() -> None:
    builder = StreamsBuilder()
    left = builder.stream("a", Consumed.with_(TEXT, NUMBER))
    left.outer_join(builder.stream("b", Consumed.with_(TEXT, JSON)), both, NEAR, StreamJoined.as_("near")).to("out")
    found = stores(builder)
    assert list(found) == ["near-outer-this-join-store", "near-outer-other-join-store", "near-outer-shared-join-store"]
    this, other, shared = found.values()
    assert (this.key_serde, this.value_serde, other.value_serde) == (TEXT, NUMBER, JSON)
    assert {this.retention_ms, other.retention_ms} == {25}
    assert {this.retains_duplicates, other.retains_duplicates} == {True}
    assert {store.cached for store in (this, other, shared)} == {False}


def test_the_options_of_stream_joined_reach_every_store() -> None:
    builder = StreamsBuilder()
    options = (
        StreamJoined.with_(TEXT, NUMBER, JSON)
        .with_store_type(StoreBackend.MEMORY)
        .with_logging_enabled({"min.insync.replicas": "2"})
    )
    builder.stream("a").left_join(builder.stream("b"), both, NEAR, options).to("out")
    for store in stores(builder).values():
        assert store.backend is StoreBackend.MEMORY
        assert store.changelog_settings == (("min.insync.replicas", "2"),)


def test_windows_may_reach_one_way_only_but_not_be_empty() -> None:
    later = NEAR.before(-3)
    assert (later.before_ms, later.after_ms, later.size_ms, later.retention_ms) == (-3, 10, 7, 12)
    with pytest.raises(TopologyError, match="empty"):
        NEAR.after(-11)
    with pytest.raises(TopologyError, match="grace"):
        JoinWindows.of_time_difference_and_grace(1, -1)


STREAMS = "join(other, joiner, windows, stream_joined=None, *, joiner_takes_key=None)"
TABLE = "join(table, joiner, joined=None, *, joiner_takes_key=None)"
GLOBAL = (
    "join(global_table, key_selector, joiner, *, named=None, joiner_takes_key=None, joiner_takes_selected_key=None)"
)


@pytest.mark.parametrize(
    ("arguments", "options", "message", "call"),
    [
        (["stream", both], {}, "missing a required argument: 'windows'", STREAMS),
        (["stream", both, NEAR], {"joined": Joined.as_("j")}, "got an unexpected keyword argument 'joined'", STREAMS),
        (["stream", both, NEAR], {"named": "n"}, "got an unexpected keyword argument 'named'", STREAMS),
        (["stream", both, Joined.as_("j")], {}, r"windows is Joined\(", STREAMS),
        (["stream", both, both], {}, r"windows is <function", STREAMS),
        (["table", both, NEAR], {}, r"joined is JoinWindows\(", TABLE),
        (["table", both, StreamJoined.as_("j")], {}, r"joined is StreamJoined\(", TABLE),
        (["table", both], {"windows": NEAR}, "got an unexpected keyword argument 'windows'", TABLE),
        (["table", both, both], {}, r"joined is <function", TABLE),
        (["global"], {}, "missing a required argument: 'key_selector'", GLOBAL),
        (["global", both], {}, "missing a required argument: 'joiner'", GLOBAL),
        (["global", both, both], {"joined": Joined.as_("j")}, "got an unexpected keyword argument 'joined'", GLOBAL),
        (["global", both, NEAR], {}, r"joiner is JoinWindows\(.*, which is not callable", GLOBAL),
        ([], {}, "the first argument is missing, and a KStream or a KTable or a GlobalKTable", STREAMS),
        ([], {"table": 3}, r"table is 3 \(int\)", TABLE),
    ],
)
@pytest.mark.parametrize("method", ["join", "left_join"])
def test_the_arguments_of_another_join_are_refused_with_the_right_call(
    method: str, arguments: list[Any], options: dict[str, Any], message: str, call: str
) -> None:
    builder = StreamsBuilder()
    others = {"stream": builder.stream("b"), "table": builder.table("t"), "global": builder.global_table("g")}
    given = [others[each] if isinstance(each, str) else each for each in arguments]
    with pytest.raises(TypeError, match=rf"KStream.{method}\(\) behind KSTREAM-SOURCE-.*: {message}") as raised:
        getattr(builder.stream("a"), method)(*given, **options)
    assert isinstance(raised.value, ArgumentError)
    assert f"KStream.{call.replace('join', method, 1)}" in raised.value.remedy


def test_an_outer_join_is_of_two_streams() -> None:
    builder = StreamsBuilder()
    with pytest.raises(ArgumentError, match=r"outer_join\(\) behind .*: other is <.*KTable"):
        builder.stream("a").outer_join(builder.table("t"), both, NEAR)  # type: ignore[arg-type]


def test_each_join_takes_its_arguments_by_name() -> None:
    def topology(by_name: bool) -> str:
        builder = StreamsBuilder()
        stream = builder.stream("a")
        other, table, global_table = builder.stream("b"), builder.table("t"), builder.global_table("g")
        if by_name:
            stream.join(other=other, joiner=both, windows=NEAR, stream_joined=StreamJoined.as_("streams")).to("1")
            stream.left_join(table=table, joiner=both, joined=Joined.as_("table")).to("2")
            stream.join(global_table=global_table, key_selector=both, joiner=both, named="global").to("3")
        else:
            stream.join(other, both, NEAR, StreamJoined.as_("streams")).to("1")
            stream.left_join(table, both, Joined.as_("table")).to("2")
            stream.join(global_table, both, both, named="global").to("3")
        return str(builder.build().describe())

    assert topology(by_name=True) == topology(by_name=False)


def test_streams_of_different_builders_and_wrong_joiners_are_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a")
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        stream.join(StreamsBuilder().stream("b"), both, NEAR)
    with pytest.raises(TopologyError, match="joiner"):
        stream.join(builder.stream("b"), lambda value: value, NEAR)
    with pytest.raises(TopologyError, match="joiner"):
        stream.join(builder.stream("c"), both, NEAR, joiner_takes_key=True)


def test_both_inputs_need_as_many_partitions() -> None:
    builder = StreamsBuilder()
    left = builder.stream("a").repartition(Repartitioned.as_("x").with_number_of_partitions(2))
    right = builder.stream("b").repartition(Repartitioned.as_("y").with_number_of_partitions(3))
    left.join(right, both, NEAR).to("out")
    with pytest.raises(TopologyError, match="same number of partitions"):
        builder.build()
