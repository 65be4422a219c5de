from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

from millrace.dsl import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    KStream,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    StoreBackend,
    StreamsBuilder,
    TimeWindows,
)
from millrace.dsl import aggregators as agg
from millrace.errors import TopologyError
from millrace.serdes import (
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serde,
    StringSerde,
    TimeWindowedSerde,
)
from millrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    Branch,
    DropNullKeys,
    Filter,
    JoinKind,
    Operator,
    PassThrough,
    StreamTableJoin,
    TableSource,
)
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topology import FrozenTopology

MINUTE = TimeWindows.of_size_with_no_grace(60_000)


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def value_of(key: Any, value: Any) -> Any:
    return value


def left(value: Any, other: Any) -> Any:
    return value


def node(topology: FrozenTopology, name: str) -> Any:
    return next(node for part in topology.sub_topologies for node in part.nodes if node.name == name)


def operators(topology: FrozenTopology) -> list[Operator]:
    return [node.operator for part in topology.sub_topologies for node in part.nodes if isinstance(node, ProcessorNode)]


def sink_of(topology: FrozenTopology, topic: str) -> SinkNode:
    return next(sink for part in topology.sub_topologies for sink in part.sinks if sink.topic == topic)


def store(topology: FrozenTopology) -> StoreSpec:
    (found,) = (store for part in topology.sub_topologies for store in part.stores)
    return found


class TestSerdes:
    def sink_serdes(self, write: Callable[[KStream], KStream]) -> tuple[Serde | None, Serde | None]:
        builder = StreamsBuilder()
        write(builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))).to("out")
        sink = sink_of(builder.build(), "out")
        return sink.key_serde, sink.value_serde

    @pytest.mark.parametrize(
        ("write", "expected"),
        [
            (lambda s: s.filter(value_of).peek(value_of), (StringSerde(), LongSerde())),
            (lambda s: s.map_values(value_of), (StringSerde(), None)),
            (lambda s: s.flat_map_values(value_of), (StringSerde(), None)),
            (lambda s: s.select_key(value_of), (None, LongSerde())),
            (lambda s: s.map(pair), (None, None)),
            (lambda s: s.flat_map(value_of), (None, None)),
            (lambda s: s.merge(s.filter(value_of)), (None, None)),
            (lambda s: s.repartition(), (StringSerde(), LongSerde())),
            (lambda s: s.group_by_key().count().to_stream(), (StringSerde(), LongSerde())),
            (
                lambda s: s.group_by_key().windowed_by(MINUTE).count().to_stream(),
                (TimeWindowedSerde(StringSerde(), 60_000), LongSerde()),
            ),
            (lambda s: s.group_by(value_of).count().to_stream(), (None, LongSerde())),
        ],
    )
    def test_each_operator_keeps_the_serdes_that_still_fit(
        self, write: Callable[[KStream], KStream], expected: tuple[Serde | None, Serde | None]
    ) -> None:
        assert self.sink_serdes(write) == expected

    def test_the_serdes_of_produced_win(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))
        stream.to("out", Produced.with_(BytesSerde()))
        sink = sink_of(builder.build(), "out")
        assert (sink.key_serde, sink.value_serde) == (BytesSerde(), LongSerde())

    @pytest.mark.parametrize(
        ("aggregator", "values", "expected"),
        [
            (agg.count(), JsonSerde(), LongSerde()),
            (agg.count("amount"), JsonSerde(), LongSerde()),
            (agg.avg("amount"), JsonSerde(), JsonSerde()),
            (agg.sum_(), IntegerSerde(), LongSerde()),
            (agg.sum_(), DoubleSerde(), DoubleSerde()),
            (agg.sum_("amount"), JsonSerde(), JsonSerde()),
            (agg.max_(), IntegerSerde(), IntegerSerde()),
            (agg.last(), StringSerde(), StringSerde()),
            (agg.collect(), StringSerde(), JsonSerde()),
            (agg.struct(total=agg.sum_("amount"), payments=agg.count()), JsonSerde(), JsonSerde()),
        ],
    )
    def test_a_built_in_aggregation_stores_its_result_with_the_serde_that_fits(
        self, aggregator: Any, values: Serde, expected: Serde
    ) -> None:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(StringSerde(), values)).group_by_key().aggregate(aggregator)
        assert store(builder.build()).value_serde == expected

    def test_an_aggregation_by_callables_leaves_the_serde_to_the_configuration(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))
        stream.group_by_key().aggregate(list, lambda key, value, aggregate: aggregate)
        assert store(builder.build()).value_serde is None


class TestStores:
    def test_the_options_of_materialized_reach_the_store(self) -> None:
        builder = StreamsBuilder()
        options = (
            Materialized.as_("counts")
            .with_key_serde(StringSerde())
            .with_caching_disabled()
            .with_logging_enabled({"segment.bytes": "1000"})
            .with_store_type(StoreBackend.MEMORY)
            .with_retention(120_000)
        )
        builder.stream("in").group_by_key().windowed_by(MINUTE).count(options)
        assert store(builder.build()) == StoreSpec(
            name="counts",
            kind=StoreKind.WINDOW,
            key_serde=StringSerde(),
            value_serde=LongSerde(),
            backend=StoreBackend.MEMORY,
            cached=False,
            window_size_ms=60_000,
            retention_ms=120_000,
            changelog_settings=(("segment.bytes", "1000"),),
        )

    def test_windows_are_kept_for_size_and_grace_by_default(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_and_grace(10_000, 5_000)).count()
        assert store(builder.build()).retention_ms == 15_000

    def test_a_retention_that_is_too_short_is_refused_with_the_numbers(self) -> None:
        windowed = StreamsBuilder().stream("in").group_by_key().windowed_by(MINUTE)
        with pytest.raises(TopologyError, match="'counts' is 59999 ms, but its windows need 60000 ms"):
            windowed.count(Materialized.as_("counts").with_retention(59_999))

    def test_a_table_is_stored_only_where_it_is_named_or_joined(self) -> None:
        builder = StreamsBuilder()
        users = builder.table("users")
        users.to_stream().to("changes")
        assert operators(builder.build())[0] == TableSource(None)
        builder.stream("clicks").join(users, left).to("out")
        joined = builder.build()
        assert operators(joined)[0] == TableSource("users-STATE-STORE-0000000000")
        assert store(joined).changelog_topic("app") == "app-users-STATE-STORE-0000000000-changelog"

    def test_two_stores_of_one_name_are_refused(self) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in").group_by_key()
        grouped.count(Materialized.as_("counts"))
        grouped.count(Materialized.as_("counts"))
        with pytest.raises(TopologyError, match="Two stores are named 'counts'"):
            builder.build()


class TestRepartitioning:
    def filters(self, builder: StreamsBuilder) -> list[Operator]:
        names = (DropNullKeys, PassThrough)
        return [operator for operator in operators(builder.build()) if isinstance(operator, names)]

    def test_null_keys_are_dropped_in_front_of_a_repartition_topic(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in").group_by(value_of).count()
        assert self.filters(builder) == [DropNullKeys()]

    def test_null_keys_pass_where_a_left_join_comes_behind_the_topic(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in").select_key(value_of).left_join(builder.table("users"), left).to("out")
        assert self.filters(builder) == [PassThrough()]

    def test_null_keys_are_dropped_in_front_of_an_inner_join(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in").select_key(value_of).join(builder.table("users"), left).to("out")
        assert self.filters(builder) == [DropNullKeys()]

    @pytest.mark.parametrize(
        "change",
        [
            lambda s: s.map(pair),
            lambda s: s.flat_map(value_of),
            lambda s: s.select_key(value_of),
            lambda s: s.merge(s.select_key(value_of)),
        ],
    )
    def test_grouping_repartitions_once_the_key_may_have_changed(self, change: Callable[[KStream], KStream]) -> None:
        builder = StreamsBuilder()
        change(builder.stream("in")).filter(value_of).group_by_key().count(Materialized.as_("counts"))
        assert [spec.name for spec in builder.build().repartition_topics] == ["counts-repartition"]

    @pytest.mark.parametrize("change", [lambda s: s.map_values(value_of), lambda s: s.flat_map_values(value_of)])
    def test_grouping_by_an_unchanged_key_does_not_repartition(self, change: Callable[[KStream], KStream]) -> None:
        builder = StreamsBuilder()
        change(builder.stream("in")).group_by_key().count()
        assert builder.build().repartition_topics == ()

    def test_the_options_of_repartitioned_reach_topic_and_sink(self) -> None:
        def first(topic: str, key: Any, value: Any, partitions: int) -> int:
            return 0

        builder = StreamsBuilder()
        options = Repartitioned.as_("spread").with_number_of_partitions(5).with_stream_partitioner(first)
        builder.stream("in").repartition(options.with_key_serde(StringSerde())).to("out")
        topology = builder.build()
        assert [(spec.name, spec.partitions) for spec in topology.repartition_topics] == [("spread-repartition", 5)]
        sink = sink_of(topology, "spread-repartition")
        assert (sink.partitioner, sink.key_serde, sink.internal) == (first, StringSerde(), True)

    def test_joined_repartition_topics_with_different_numbers_of_partitions_are_refused(self) -> None:
        builder = StreamsBuilder()
        table = builder.stream("users").repartition(Repartitioned.as_("u").with_number_of_partitions(2)).to_table()
        stream = builder.stream("clicks").repartition(Repartitioned.as_("c").with_number_of_partitions(3))
        stream.join(table, left).to("out")
        with pytest.raises(TopologyError, match="'c-repartition': 3, 'u-repartition': 2"):
            builder.build()

    def test_two_repartition_topics_of_one_name_are_refused(self) -> None:
        builder = StreamsBuilder()
        builder.stream("a").repartition(Repartitioned.as_("spread")).to("x")
        with pytest.raises(TopologyError, match="spread-repartition"):
            builder.stream("b").repartition(Repartitioned.as_("spread")).to("y")


class TestOperators:
    def test_expressions_are_taken_where_the_result_is_one_column(self) -> None:
        builder = StreamsBuilder()
        amount = pc.field("amount")
        stream = builder.stream("in").filter(amount > 100).map_values(amount).select_key(pc.field("key"))
        stream.split().branch(amount > 1).no_default_branch()
        stream.group_by(pc.field("user")).count()
        first = operators(builder.build())[0]
        assert isinstance(first, Filter)
        assert isinstance(first.predicate, pc.Expression)
        assert first.predicate.equals(amount > 100)

    @pytest.mark.parametrize("operator", ["map", "flat_map", "flat_map_values", "peek", "foreach"])
    def test_expressions_are_refused_where_a_callable_is_needed(self, operator: str) -> None:
        stream = StreamsBuilder().stream("in")
        with pytest.raises(TopologyError, match="not callable"):
            getattr(stream, operator)(pc.field("amount"))

    @pytest.mark.parametrize(
        "operator",
        [
            *("filter", "filter_not", "map", "flat_map", "select_key", "peek", "foreach", "group_by"),
        ],
    )
    def test_a_callable_that_cannot_take_key_and_value_is_refused_by_name(self, operator: str) -> None:
        def only_value(value: Any) -> Any:
            return value

        stream = StreamsBuilder().stream("in")
        with pytest.raises(TopologyError, match=r"only_value\(value: .*\(key, value\)"):
            getattr(stream, operator)(only_value)

    @pytest.mark.parametrize(
        "function", [lambda *arguments: arguments, lambda key, value, more=1: value, max, dict.get]
    )
    def test_a_callable_that_can_take_key_and_value_is_accepted(self, function: Callable[..., Any]) -> None:
        StreamsBuilder().stream("in").map_values(function)

    def test_wrong_aggregation_callables_are_refused(self) -> None:
        grouped = StreamsBuilder().stream("in").group_by_key()
        with pytest.raises(TopologyError, match="initializer"):
            grouped.aggregate(lambda key: key, lambda key, value, aggregate: aggregate)  # type: ignore[arg-type, misc]
        with pytest.raises(TopologyError, match="adder"):
            grouped.aggregate(list, pair)  # type: ignore[arg-type]
        with pytest.raises(TopologyError, match="adder"):
            grouped.aggregate(list)
        with pytest.raises(TopologyError, match="takes no adder"):
            grouped.aggregate(agg.count(), lambda key, value, aggregate: aggregate)
        with pytest.raises(TopologyError, match="reducer"):
            grouped.reduce(lambda value: value)  # type: ignore[arg-type, misc]

    def test_a_branch_operator_names_its_children_in_order(self) -> None:
        builder = StreamsBuilder()
        split = builder.stream("in").split(named=Named.as_("by-"))
        branches = split.branch(value_of, Branched.as_("large")).branch(pair).default_branch(Branched.as_("rest"))
        assert list(branches) == ["by-large", "by-2", "by-rest"]
        operator = operators(builder.build())[0]
        assert operator == Branch(((value_of, "by-large"), (pair, "by-2")), "by-rest")

    def test_without_a_default_branch_there_is_no_default_child(self) -> None:
        builder = StreamsBuilder()
        assert builder.stream("in").split(named="by-").branch(value_of).no_default_branch().keys() == {"by-1"}
        operator = operators(builder.build())[0]
        assert isinstance(operator, Branch)
        assert operator.default_child is None

    def test_a_branch_function_that_returns_nothing_leaves_its_branch_out(self) -> None:
        builder = StreamsBuilder()
        split = builder.stream("in").split(named="by-")
        branches = split.branch(value_of, Branched.with_function(lambda stream: None)).no_default_branch()
        assert branches == {}

    def test_a_joiner_may_take_the_key(self) -> None:
        def joiner(key: Any, value: Any, other: Any) -> Any:
            return key

        builder = StreamsBuilder()
        users = builder.table("users", materialized=Materialized.as_("users"))
        builder.stream("clicks").left_join(users, joiner, joiner_takes_key=True, joined=Joined.as_("with-user"))
        operator = StreamTableJoin("KTABLE-SOURCE-0000000001", JoinKind.LEFT, joiner, True)
        assert node(builder.build(), "with-user").operator == operator
        builder.stream("views").left_join(users, joiner, joined=Joined.as_("by-arity"))
        assert node(builder.build(), "by-arity").operator == operator
        with pytest.raises(TopologyError, match=r"cannot be called with \(value, table_value\)"):
            builder.stream("views").join(users, joiner, joiner_takes_key=False)
        with pytest.raises(TopologyError, match=r"neither \(value, table_value\) nor \(key, value, table_value\)"):
            builder.stream("others").join(users, lambda value: value)

    def test_frame_functions_run_at_the_source_in_their_order(self) -> None:
        def one(frame: Any) -> Any:
            return frame

        def two(frame: Any) -> Any:
            return frame

        builder = StreamsBuilder()
        builder.stream("in").transform_frame(one).transform_frame(two).to("out")
        (source,) = builder.build().sub_topologies[0].sources
        assert source.frame_functions == (one, two)

    def test_a_frame_function_is_refused_behind_an_operator(self) -> None:
        stream = StreamsBuilder().stream("in")
        filtered = stream.filter(value_of)
        for late in (filtered, stream):
            with pytest.raises(TopologyError, match="transform_frame"):
                late.transform_frame(lambda frame: frame)

    def test_streams_of_two_builders_cannot_be_combined(self) -> None:
        one, other = StreamsBuilder(), StreamsBuilder()
        with pytest.raises(TopologyError, match="different StreamsBuilders"):
            one.stream("a").merge(other.stream("b"))
        with pytest.raises(TopologyError, match="different StreamsBuilders"):
            one.stream("c").join(other.table("d"), left)


class TestInputs:
    def test_the_options_of_consumed_reach_the_source(self) -> None:
        def extract(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
            return timestamp

        consumed = (
            Consumed.with_(StringSerde(), JsonSerde())
            .with_timestamp_extractor(extract)
            .with_offset_reset_policy("latest")
            .with_name("payments-in")
        )
        builder = StreamsBuilder()
        builder.stream(["a", "b"], consumed).to("out")
        (source,) = builder.build().sub_topologies[0].sources
        assert source == SourceNode(
            name="payments-in",
            topics=("a", "b"),
            key_serde=StringSerde(),
            value_serde=JsonSerde(),
            timestamp_extractor=extract,
            offset_reset="latest",
        )

    def test_wrong_options_are_refused(self) -> None:
        with pytest.raises(TopologyError, match="earliest"):
            Consumed().with_offset_reset_policy("newest")
        with pytest.raises(TopologyError, match="timestamp extractor"):
            Consumed().with_timestamp_extractor(lambda record: 0)  # type: ignore[arg-type]
        with pytest.raises(TopologyError, match="at least 1 partition"):
            Repartitioned().with_number_of_partitions(0)

    def test_an_empty_topology_is_refused(self) -> None:
        with pytest.raises(TopologyError, match="empty"):
            StreamsBuilder().build()

    def test_streams_that_overlap_in_some_topics_are_refused(self) -> None:
        builder = StreamsBuilder()
        builder.stream(["a", "b"]).to("x")
        builder.stream("b").to("y")
        with pytest.raises(TopologyError, match="overlap"):
            builder.build()

    def test_a_topic_cannot_be_both_stream_and_table(self) -> None:
        builder = StreamsBuilder()
        builder.stream("users").to("x")
        builder.table("users").to_stream().to("y")
        with pytest.raises(TopologyError, match="'users' is read by both"):
            builder.build()

    def test_one_topic_cannot_start_at_two_places(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", Consumed().with_offset_reset_policy("latest")).to("x")
        builder.stream("in", Consumed().with_offset_reset_policy("earliest")).to("y")
        with pytest.raises(TopologyError, match="read twice"):
            builder.build()

    def test_two_nodes_of_one_name_are_refused_with_the_names_in_use(self) -> None:
        stream = StreamsBuilder().stream("in").filter(value_of, named="step")
        with pytest.raises(TopologyError, match=r"'step'\. Names in use: KSTREAM-SOURCE-0000000000, step"):
            stream.filter(value_of, named="step")

    @pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "a/b", "x" * 250])
    def test_names_that_no_topic_can_have_are_refused(self, name: str) -> None:
        for make in (Named.as_, Consumed.as_, Produced.as_, Grouped.as_, Joined.as_, Materialized.as_, Branched.as_):
            with pytest.raises(TopologyError, match="not a legal"):
                make(name)
        with pytest.raises(TopologyError, match="not a legal topic name"):
            StreamsBuilder().stream(name)


def test_the_dsl_loads_neither_spark_nor_kafka_clients() -> None:
    code = "import sys, millrace.dsl; print([m for m in ('pyspark', 'confluent_kafka', 'pandas') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
