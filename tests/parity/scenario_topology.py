"""The topology of a scenario, built with our DSL."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import pyarrow as pa

from millrace.dsl import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from millrace.serdes import JsonSerde, LongSerde, Serde, SessionWindowedSerde, StringSerde, TimeWindowedSerde
from millrace.topology.nodes import SinkNode
from millrace.topology.parts import full_topic_name
from millrace.topology.store_builders import StoreSupplier
from millrace.topology.topology import FrozenTopology
from tests.parity.functions import (
    AGGREGATES,
    BUILT_IN_AGGREGATORS,
    FLAT_MAPPERS,
    FLAT_VALUE_MAPPERS,
    JOINERS,
    KEY_MAPPERS,
    MERGERS,
    NUMBER_EXPRESSIONS,
    OBJECT_EXPRESSIONS,
    PAIR_MAPPERS,
    PREDICATES,
    REDUCERS,
    TABLE_AGGREGATES,
    TABLE_REDUCERS,
    TIMESTAMP_EXTRACTORS,
    TOPIC_EXTRACTORS,
    VALUE_MAPPERS,
    TopicExtractor,
    choose_by_key,
    joiner_with_keys,
)
from tests.parity.processors import FIXED_KEY_PROCESSORS, PROCESSORS, StatefulTransformer, store_builder

KEY = StringSerde()
VALUE = JsonSerde()
TYPED_VALUE = JsonSerde(schema=pa.schema([("user", pa.string()), ("amount", pa.int64())]))


def is_order_defined(topology: FrozenTopology) -> bool:
    """Whether the order of the records within each task follows from that of the input.

    It does not where two input topics of a task go back to one topic of the application: a task then meets what took
    the longer way sooner or later, depending on where batches end.
    """
    inputs = {part.number: part.input_topics("app") for part in topology.sub_topologies}
    writers: dict[str, list[int]] = {}
    for part in topology.sub_topologies:
        for node in part.nodes:
            for topic in _written(node) if isinstance(node, SinkNode) else ():
                writers.setdefault(topic, []).append(part.number)

    def origins(topic: str, on_the_way: frozenset[str] = frozenset()) -> set[str]:
        if topic in on_the_way:
            return set()
        if topic not in writers:
            return {topic}
        return set().union(
            *(origins(above, on_the_way | {topic}) for number in writers[topic] for above in inputs[number])
        )

    for topics in inputs.values():
        found = [origins(topic) for topic in topics]
        if sum(map(len, found)) != len(set().union(*found)):
            return False
    return True


def _written(node: SinkNode) -> tuple[str, ...]:
    """The topics of a sink that a topology may read."""
    if isinstance(node.extractor, TopicExtractor):
        return node.extractor.read_again
    return () if node.topic is None else (full_topic_name(node.topic, "app", internal=node.internal),)


class _Shape(Enum):
    """What is known of a stream's values: decides whether a function has a columnar form."""

    OBJECTS = "objects in typed columns"
    NUMBERS = "numbers in typed columns"
    UNKNOWN = "Python objects"


_KEEPS_SHAPE = {
    "table_filter",
    "table_filter_not",
    "filter",
    "filter_not",
    "peek",
    "select_key",
    "group_by",
    "group_by_key",
    "windowed_by",
    "to_stream",
    "suppress",
}


_LOSES_WINDOWS = {"select_key", "table_group_by", "map", "flat_map", "group_by"}


def _windowed_key(step: dict[str, Any]) -> Serde | None:
    """How keys behind a ``windowed_by`` are written."""
    if "gap" in step:
        return SessionWindowedSerde(KEY)
    if "start" in step:
        return TimeWindowedSerde(KEY, 2**63 - 1)
    size = step.get("size", step.get("difference"))
    return None if size is None else TimeWindowedSerde(KEY, size)


def supplier(step: dict[str, Any], name: str, *, duplicates: bool = False) -> StoreSupplier:
    """Where a step keeps its store: ``memory``, ``disk`` or ``lru 2``; of windows or sessions where it says so."""
    place = step["place"]
    if place.startswith("lru "):
        return Stores.lru_map(name, int(place.removeprefix("lru ")))
    in_memory = place == "memory"
    if "size" in step:
        make = Stores.in_memory_window_store if in_memory else Stores.persistent_window_store
        return make(name, step["retention"], step["size"], retain_duplicates=duplicates)
    if "retention" in step:
        make_session = Stores.in_memory_session_store if in_memory else Stores.persistent_session_store
        return make_session(name, step["retention"])
    return Stores.in_memory_key_value_store(name) if in_memory else Stores.persistent_key_value_store(name)


def _written_topics(steps: list[dict[str, Any]]) -> set[str]:
    """The topics that sinks of a topology write, as far as it may read them."""
    sinks = [step for step in steps if step["op"] == "to"]
    chosen = {topic for step in sinks if "by" in step for topic in TOPIC_EXTRACTORS[step["by"]].read_again}
    return chosen | {step["topic"] for step in sinks if "topic" in step}


class ScenarioTopology:
    """A scenario's topology through our DSL.

    Args:
        scenario: it.
        in_columns: whether what has a columnar form takes it.
        builder: takes the operators, where several scenarios make one topology.
    """

    def __init__(self, scenario: dict[str, Any], *, in_columns: bool, builder: StreamsBuilder | None = None) -> None:
        self.builder = builder or StreamsBuilder()
        self._by_hand: Topology | None = None
        self._in_columns = in_columns
        self._named: dict[str, Any] = {}
        self._shapes: dict[str, _Shape] = {}
        self._window_sizes: dict[str, int] = {}
        self._summed_fields: dict[str, str | None] = {}
        self._windowed_keys: dict[str, Serde] = {}
        self._written = _written_topics(scenario["topology"])
        for step in scenario["topology"]:
            self._add(step)

    def build(self, rewrites: tuple[str, ...] = ()) -> FrozenTopology:
        """The topology."""
        return self.builder.build(rewrites=rewrites) if self._by_hand is None else self._by_hand.build()

    def _add(self, step: dict[str, Any]) -> None:
        on = self._named.get(step.get("on", ""))
        made = _OPERATORS[step["op"]](self, on, step)
        if "as" not in step:
            return
        name = step["as"]
        self._named[name] = made
        self._shapes[name] = self._shape_after(step)
        key_serde = _windowed_key(step) or self._windowed_keys.get(step.get("on", ""))
        if key_serde is not None and step["op"] not in _LOSES_WINDOWS:
            self._windowed_keys[name] = key_serde

    def _shape(self, step: dict[str, Any]) -> _Shape:
        return self._shapes.get(step.get("on", ""), _Shape.UNKNOWN)

    def _shape_after(self, step: dict[str, Any]) -> _Shape:
        if not self._in_columns or self._reads_results(step):
            return _Shape.UNKNOWN
        if step["op"] in {"stream", "table"}:
            return _Shape.OBJECTS
        if step["op"] in _KEEPS_SHAPE:
            return self._shape(step)
        if step["op"] in {"map_values", "table_map_values"} and step["fn"] in {"amount", "amount+1"}:
            return _Shape.UNKNOWN if self._shape(step) is _Shape.UNKNOWN else _Shape.NUMBERS
        return _Shape.UNKNOWN

    def _function(self, step: dict[str, Any], callables: dict[str, Callable[..., Any]]) -> Any:
        expressions = {_Shape.OBJECTS: OBJECT_EXPRESSIONS, _Shape.NUMBERS: NUMBER_EXPRESSIONS}.get(
            self._shape(step), {}
        )
        return expressions.get(step["fn"], callables[step["fn"]])

    @property
    def _source_value(self) -> JsonSerde:
        return TYPED_VALUE if self._in_columns else VALUE

    def _value_serde(self, step: dict[str, Any]) -> JsonSerde:
        return TYPED_VALUE if self._shape(step) is _Shape.OBJECTS else VALUE

    def stream(self, _: Any, step: dict[str, Any]) -> Any:
        topics = re.compile(step["pattern"]) if "pattern" in step else step["topics"]
        return self.builder.stream(topics, self._consumed(step))

    def _reads_results(self, step: dict[str, Any]) -> bool:
        """Whether a stream has what a sink of the topology wrote, which has no fixed columns."""
        return not self._written.isdisjoint(step.get("topics", ()))

    def table(self, _: Any, step: dict[str, Any]) -> Any:
        return self.builder.table(step["topic"], self._consumed(step), self._store(step, self._source_value))

    def _consumed(self, step: dict[str, Any]) -> Consumed:
        consumed = Consumed.with_(KEY, VALUE if self._reads_results(step) else self._source_value)
        extractor = step.get("extractor")
        return consumed if extractor is None else consumed.with_timestamp_extractor(TIMESTAMP_EXTRACTORS[extractor])

    def filter(self, on: Any, step: dict[str, Any]) -> Any:
        return on.filter(self._function(step, PREDICATES))

    def filter_not(self, on: Any, step: dict[str, Any]) -> Any:
        return on.filter_not(self._function(step, PREDICATES))

    def map(self, on: Any, step: dict[str, Any]) -> Any:
        return on.map(PAIR_MAPPERS[step["fn"]])

    def map_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.map_values(self._function(step, VALUE_MAPPERS))

    def flat_map(self, on: Any, step: dict[str, Any]) -> Any:
        return on.flat_map(FLAT_MAPPERS[step["fn"]])

    def flat_map_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.flat_map_values(FLAT_VALUE_MAPPERS[step["fn"]])

    def select_key(self, on: Any, step: dict[str, Any]) -> Any:
        return on.select_key(self._function(step, KEY_MAPPERS))

    def peek(self, on: Any, step: dict[str, Any]) -> Any:
        return on.peek(lambda key, value: None)

    def branch(self, on: Any, step: dict[str, Any]) -> None:
        split = on.split()
        for part in step["branches"]:
            shaped = {**step, "fn": part["fn"]}
            split = split.branch(self._function(shaped, PREDICATES), self._keeping(part["as"], step))
        if "default" in step:
            split.default_branch(self._keeping(step["default"], step))
        else:
            split.no_default_branch()

    def _keeping(self, name: str, step: dict[str, Any]) -> Branched:
        def keep(stream: Any) -> None:
            self._named[name] = stream
            self._shapes[name] = self._shape(step)

        return Branched.with_consumer(keep)

    def merge(self, on: Any, step: dict[str, Any]) -> Any:
        return on.merge(self._named[step["with"]])

    def repartition(self, on: Any, step: dict[str, Any]) -> Any:
        return on.repartition(
            Repartitioned(
                name=step["name"],
                key_serde=KEY,
                value_serde=self._value_serde(step),
                stream_partitioner=_partitioner(step),
            )
        )

    def group_by(self, on: Any, step: dict[str, Any]) -> Any:
        return on.group_by(self._function(step, KEY_MAPPERS), self._grouped(step))

    def group_by_key(self, on: Any, step: dict[str, Any]) -> Any:
        return on.group_by_key(self._grouped(step))

    def _grouped(self, step: dict[str, Any]) -> Grouped:
        grouped = Grouped.with_(KEY, self._value_serde(step))
        return grouped.with_name(step["name"]) if "name" in step else grouped

    def windowed_by(self, on: Any, step: dict[str, Any]) -> Any:
        windowed = self._windowed_by(on, step)
        return windowed.emit_strategy(EmitStrategy.on_window_close()) if step.get("emit") == "close" else windowed

    def _windowed_by(self, on: Any, step: dict[str, Any]) -> Any:
        if "gap" in step:
            return on.windowed_by(SessionWindows.of_inactivity_gap_and_grace(step["gap"], step["grace"]))
        if "difference" in step:
            return on.windowed_by(SlidingWindows.of_time_difference_and_grace(step["difference"], step["grace"]))
        if "start" in step:
            return on.windowed_by(UnlimitedWindows.of().start_on(step["start"]))
        windows = TimeWindows.of_size_and_grace(step["size"], step["grace"])
        return on.windowed_by(windows.advance_by(step["advance"]) if "advance" in step else windows)

    def count(self, on: Any, step: dict[str, Any]) -> Any:
        return on.count(self._store(step, LongSerde()))

    def reduce(self, on: Any, step: dict[str, Any]) -> Any:
        return on.reduce(REDUCERS[step["fn"]], self._store(step, VALUE))

    def aggregate(self, on: Any, step: dict[str, Any]) -> Any:
        fn, shape = step["fn"], self._shape(step)
        if shape is not _Shape.UNKNOWN and fn in BUILT_IN_AGGREGATORS:
            field = "amount" if shape is _Shape.OBJECTS else None
            return on.aggregate(BUILT_IN_AGGREGATORS[fn](field), materialized=self._store(step, VALUE))
        if isinstance(on, SessionWindowedKStream):
            return on.aggregate(*AGGREGATES[fn], MERGERS[fn], self._store(step, VALUE))
        return on.aggregate(*AGGREGATES[fn], self._store(step, VALUE))

    def cogroup(self, _: Any, step: dict[str, Any]) -> Any:
        first, *others = step["inputs"]
        cogrouped = self._named[first["on"]].cogroup(AGGREGATES[first["fn"]][1])
        for other in others:
            cogrouped = cogrouped.cogroup(self._named[other["on"]], AGGREGATES[other["fn"]][1])
        return cogrouped

    def cogroup_aggregate(self, on: Any, step: dict[str, Any]) -> Any:
        fn, store = step["fn"], self._store(step, VALUE)
        if isinstance(on, SessionWindowedCogroupedKStream):
            return on.aggregate(AGGREGATES[fn][0], MERGERS[fn], store)
        return on.aggregate(AGGREGATES[fn][0], store)

    def _store(self, step: dict[str, Any], value_serde: Any) -> Materialized:
        if "history" in step:
            return self._versioned(step, value_serde)
        place = supplier(step, step["store"]) if "place" in step else step.get("store")
        named = Materialized.with_(None, None) if place is None else Materialized.as_(place)
        is_table = step["op"].startswith("table_") or step["op"] == "foreign_key_join"
        key_serde = self._windowed_keys.get(step.get("on", ""), KEY) if is_table else KEY
        store = named.with_key_serde(key_serde).with_value_serde(value_serde)
        if not step.get("cached"):
            store = store.with_caching_disabled()
        if not step.get("logged", True):
            store = store.with_logging_disabled()
        return store.with_retention(step["retention"]) if "retention" in step and "place" not in step else store

    def _versioned(self, step: dict[str, Any], value_serde: Any) -> Materialized:
        supplier = Stores.persistent_versioned_key_value_store(
            step["store"], step["history"], step.get("segment_interval")
        )
        return Materialized.as_(supplier).with_key_serde(KEY).with_value_serde(value_serde)

    def to_stream(self, on: Any, step: dict[str, Any]) -> Any:
        return on.to_stream()

    def to_table(self, on: Any, step: dict[str, Any]) -> Any:
        serde = self._value_serde(step)
        return on.to_table(self._store(step, serde))

    def _joined(self, step: dict[str, Any]) -> Joined:
        options = Joined.with_(KEY, self._value_serde(step), VALUE)
        options = options if "name" not in step else options.with_name(step["name"])
        return options if "grace" not in step else options.with_grace_period(step["grace"])

    def join(self, on: Any, step: dict[str, Any]) -> Any:
        options = self._joined(step)
        return on.join(self._named[step["table"]], JOINERS[step["fn"]], joined=options)

    def left_join(self, on: Any, step: dict[str, Any]) -> Any:
        options = self._joined(step)
        return on.left_join(self._named[step["table"]], JOINERS[step["fn"]], joined=options)

    def stream_join(self, on: Any, step: dict[str, Any]) -> Any:
        other = {"on": step["with"]}
        windows = (
            JoinWindows.of_time_difference_and_grace(60_000, step["grace"]).before(step["before"]).after(step["after"])
        )
        options = StreamJoined.with_(KEY, self._value_serde(step), self._value_serde(other))
        for side in ("left", "right"):
            if side in step.get("places", {}):
                place = {"place": step["places"][side], **step, "size": step["before"] + step["after"]}
                place["retention"] = place["size"] + step["grace"]
                own = supplier(place, f"{step['buffers']}-{side}", duplicates=True)
                with_own = options.with_this_store_supplier if side == "left" else options.with_other_store_supplier
                options = with_own(own)
        if not step.get("logged", True):
            options = options.with_logging_disabled()
        join = {"inner": on.join, "left": on.left_join, "outer": on.outer_join}[step["kind"]]
        return join(self._named[step["with"]], JOINERS[step["fn"]], windows, options.with_store_name(step["buffers"]))

    # ---- processors

    def process(self, on: Any, step: dict[str, Any]) -> Any:
        return on.process(PROCESSORS[step["fn"]], *step.get("stores", ()))

    def process_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.process_values(FIXED_KEY_PROCESSORS[step["fn"]], *step.get("stores", ()))

    def stateful_transform_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.transform_values(StatefulTransformer, self._store_or_none(step, VALUE), *step["stores"])

    def state_store(self, _: Any, step: dict[str, Any]) -> None:
        if self._by_hand is None:
            self.builder.add_state_store(store_builder(step))
        else:
            self._by_hand.add_state_store(store_builder(step), *step.get("processors", ()))

    @property
    def _low_level(self) -> Topology:
        self._by_hand = self._by_hand or Topology()
        return self._by_hand

    def add_source(self, _: Any, step: dict[str, Any]) -> None:
        topics = [re.compile(step["pattern"])] if "pattern" in step else step["topics"]
        self._low_level.add_source(step["name"], *topics, key_serde=KEY, value_serde=self._source_value)

    def add_processor(self, _: Any, step: dict[str, Any]) -> None:
        self._low_level.add_processor(step["name"], PROCESSORS[step["fn"]], *step["parents"])

    def add_sink(self, _: Any, step: dict[str, Any]) -> None:
        self._low_level.add_sink(
            step["name"],
            _topic(step),
            *step["parents"],
            key_serde=KEY,
            value_serde=VALUE,
            partitioner=_partitioner(step),
        )

    def read_only_store(self, _: Any, step: dict[str, Any]) -> None:
        self._low_level.add_read_only_state_store(
            store_builder(step),
            step["source"],
            step["topic"],
            step["name"],
            PROCESSORS[step["fn"]],
            key_serde=KEY,
            value_serde=self._source_value,
        )

    def connect(self, _: Any, step: dict[str, Any]) -> None:
        self._low_level.connect_processor_and_state_stores(step["name"], *step["stores"])

    def global_table(self, _: Any, step: dict[str, Any]) -> Any:
        return self.builder.global_table(
            step["topic"], self._consumed(step), self._optional_store(step, self._source_value)
        )

    def global_join(self, on: Any, step: dict[str, Any]) -> Any:
        selector = self._function({**step, "fn": step["selector"]}, KEY_MAPPERS)
        takes = step.get("takes")
        join = on.join if step["op"] == "global_join" else on.left_join
        return join(
            self._named[step["table"]],
            selector,
            joiner_with_keys(step["fn"], takes),
            joiner_takes_key=takes == "key",
            joiner_takes_selected_key=takes == "both keys",
        )

    global_left_join = global_join

    # ---- tables

    _optional_store = _store

    def _store_or_none(self, step: dict[str, Any], value_serde: Any) -> Materialized | None:
        return self._store(step, value_serde) if "store" in step else None

    def table_filter(self, on: Any, step: dict[str, Any]) -> Any:
        return on.filter(self._function(step, PREDICATES), self._store_or_none(step, self._value_serde(step)))

    def table_filter_not(self, on: Any, step: dict[str, Any]) -> Any:
        return on.filter_not(self._function(step, PREDICATES), self._store_or_none(step, self._value_serde(step)))

    def table_map_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.map_values(self._function(step, VALUE_MAPPERS), self._store_or_none(step, VALUE))

    def table_transform_values(self, on: Any, step: dict[str, Any]) -> Any:
        return on.transform_values(VALUE_MAPPERS[step["fn"]], self._store_or_none(step, VALUE))

    def table_join(self, on: Any, step: dict[str, Any]) -> Any:
        return on.join(self._named[step["with"]], JOINERS[step["fn"]], self._store_or_none(step, VALUE))

    def table_left_join(self, on: Any, step: dict[str, Any]) -> Any:
        return on.left_join(self._named[step["with"]], JOINERS[step["fn"]], self._store_or_none(step, VALUE))

    def foreign_key_join(self, on: Any, step: dict[str, Any]) -> Any:
        join = {"inner": on.join, "left": on.left_join}[step["kind"]]
        return join(
            self._named[step["with"]],
            JOINERS[step["fn"]],
            self._optional_store(step, VALUE),
            foreign_key_extractor=self._function({**step, "fn": step["by"]}, KEY_MAPPERS),
            table_joined=TableJoined.as_(step["name"]) if "name" in step else None,
        )

    def table_outer_join(self, on: Any, step: dict[str, Any]) -> Any:
        return on.outer_join(self._named[step["with"]], JOINERS[step["fn"]], self._store_or_none(step, VALUE))

    def suppress(self, on: Any, step: dict[str, Any]) -> Any:
        if on._value_serde is None:
            # Kafka Streams takes its default serde where an operator between names none.
            on._value_serde = VALUE
        buffer: BufferConfig = BufferConfig.unbounded()
        if "records" in step:
            buffer = buffer.with_max_records(step["records"])
        if "bytes" in step:
            buffer = buffer.with_max_bytes(step["bytes"])
        if step.get("full") == "emit":
            buffer = buffer.emit_early_when_full()
        if step.get("logged") is False:
            buffer = buffer.with_logging_disabled()
        if "limit" in step:
            return on.suppress(Suppressed.until_time_limit(step["limit"], buffer).with_name(step["name"]))
        return on.suppress(Suppressed.until_window_closes(buffer).with_name(step["name"]))

    def table_group_by(self, on: Any, step: dict[str, Any]) -> Any:
        if self._in_columns and step["fn"] != "amount mod 3, value":
            self._summed_fields[step["as"]] = None
        elif self._shape(step) is _Shape.OBJECTS:
            self._summed_fields[step["as"]] = "amount"
        return on.group_by(PAIR_MAPPERS[step["fn"]], Grouped.with_(KEY, VALUE))

    def table_count(self, on: Any, step: dict[str, Any]) -> Any:
        return on.count(self._store(step, LongSerde()))

    def table_reduce(self, on: Any, step: dict[str, Any]) -> Any:
        return on.reduce(*TABLE_REDUCERS[step["fn"]], self._store(step, VALUE))

    def table_aggregate(self, on: Any, step: dict[str, Any]) -> Any:
        field = self._summed_fields.get(step["on"], "unknown")
        if step["fn"] == "sum" and field != "unknown":
            return on.aggregate(BUILT_IN_AGGREGATORS["sum"](field), None, None, self._store(step, VALUE))
        return on.aggregate(*TABLE_AGGREGATES[step["fn"]], self._store(step, VALUE))

    def to(self, on: Any, step: dict[str, Any]) -> None:
        produced = Produced(
            key_serde=self._windowed_keys.get(step["on"], KEY),
            value_serde=self._value_serde(step),
            stream_partitioner=_partitioner(step),
        )
        on.to(_topic(step), produced)


def _partitioner(step: dict[str, Any]) -> Any:
    """What chooses the partitions of a sink, if anything does."""
    return choose_by_key if step.get("partitioner") else None


def _topic(step: dict[str, Any]) -> Any:
    """The topic of a sink, or what chooses it."""
    return TOPIC_EXTRACTORS[step["by"]] if "by" in step else step["topic"]


_OPERATORS: dict[str, Callable[[ScenarioTopology, Any, dict[str, Any]], Any]] = {
    name: getattr(ScenarioTopology, name)
    for name in (
        "stream",
        "table",
        "filter",
        "filter_not",
        "map",
        "map_values",
        "flat_map",
        "flat_map_values",
        "select_key",
        "peek",
        "branch",
        "merge",
        "repartition",
        "group_by",
        "group_by_key",
        "windowed_by",
        "count",
        "reduce",
        "aggregate",
        "cogroup",
        "cogroup_aggregate",
        "to_stream",
        "to_table",
        "join",
        "left_join",
        "stream_join",
        "global_table",
        "global_join",
        "global_left_join",
        "table_filter",
        "table_filter_not",
        "table_map_values",
        "table_transform_values",
        "table_join",
        "table_left_join",
        "table_outer_join",
        "suppress",
        "foreign_key_join",
        "table_group_by",
        "table_count",
        "table_reduce",
        "table_aggregate",
        "process",
        "process_values",
        "stateful_transform_values",
        "state_store",
        "add_source",
        "add_processor",
        "add_sink",
        "read_only_store",
        "connect",
        "to",
    )
}
