"""What a wrong argument is told: every public method and option object names itself, the argument and the remedy."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow.compute as pc
import pytest

from millrace import dsl
from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Named,
    Processor,
    Produced,
    Record,
    RocksDBOptions,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindowedKStream,
    TimeWindows,
    Topology,
    aggregators,
)
from millrace.errors import ConfigurationError, TopologyError
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde, serde_from
from millrace.testing import TopologyTestDriver
from millrace.topology.arguments import _types

TEXT, JSON = StringSerde(), JsonSerde()
READ = Consumed.with_(TEXT, JSON)


class Wrong:
    """An object that no argument can be."""


def stream(builder: StreamsBuilder | None = None) -> KStream:
    return (builder or StreamsBuilder()).stream("in", READ)


def windowed() -> TimeWindowedKStream:
    return stream().group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(1))


def table() -> KTable:
    return StreamsBuilder().table("in", READ)


def objects() -> dict[str, Any]:
    """An object of each public class of the DSL whose methods take arguments."""
    grouped = stream().group_by_key()
    cogrouped = stream().group_by_key().cogroup(lambda key, value, aggregate: aggregate)
    windows = TimeWindows.of_size_with_no_grace(10)
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(10)
    supplier = Stores.persistent_key_value_store("store")
    return {
        "StreamsBuilder": StreamsBuilder(),
        "Topology": Topology(),
        "KStream": stream(),
        "KTable": table(),
        "KGroupedStream": grouped,
        "KGroupedTable": table().group_by(lambda key, value: (key, value)),
        "TimeWindowedKStream": grouped.windowed_by(windows),
        "SessionWindowedKStream": grouped.windowed_by(sessions),
        "CogroupedKStream": cogrouped,
        "TimeWindowedCogroupedKStream": cogrouped.windowed_by(windows),
        "SessionWindowedCogroupedKStream": cogrouped.windowed_by(sessions),
        "BranchedKStream": stream().split(),
        "Consumed": Consumed(),
        "Produced": Produced(),
        "Grouped": Grouped(),
        "Repartitioned": dsl.Repartitioned(),
        "Joined": Joined(),
        "StreamJoined": dsl.StreamJoined(),
        "TableJoined": dsl.TableJoined(),
        "Materialized": Materialized(),
        "Branched": dsl.Branched(),
        "Named": Named("node"),
        "Suppressed": Suppressed.until_time_limit(1, BufferConfig.unbounded()),
        "BufferConfig": BufferConfig.unbounded(),
        "TimeWindows": windows,
        "SlidingWindows": SlidingWindows.of_time_difference_with_no_grace(10),
        "SessionWindows": sessions,
        "UnlimitedWindows": dsl.UnlimitedWindows.of(),
        "JoinWindows": JoinWindows.of_time_difference_with_no_grace(10),
        "Stores": Stores,
        "StoreSupplier": supplier,
        "StoreBuilder": Stores.key_value_store_builder(supplier, TEXT, JSON),
        "RocksDBOptions": RocksDBOptions(),
        "TopologyTestDriver": TopologyTestDriver(_copying()),
    }


def _copying() -> Any:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()


MAY_BE_CLASSES = ("initializer", "factory")
"""Callables for which a class is right, whichever it is."""


def calls() -> Iterator[tuple[str, Callable[..., Any], str, inspect.Signature]]:
    """Every public method of those objects with each of its parameters, and the constructors of option objects."""
    for name, each in objects().items():
        kind = each if isinstance(each, type) else type(each)
        methods = [method for method in dir(kind) if not method.startswith("_")]
        for method in methods:
            function = getattr(each, method) if not isinstance(inspect.getattr_static(kind, method), property) else None
            if inspect.isroutine(function):
                yield from (
                    (f"{name}.{method}", function, parameter, inspect.signature(function))
                    for parameter in inspect.signature(function).parameters
                )
        if hasattr(kind, "__dataclass_fields__"):
            yield from (
                (name, kind, parameter, inspect.signature(kind)) for parameter in inspect.signature(kind).parameters
            )


def good(parameter: inspect.Parameter) -> Any:
    """Something that may stand for a parameter while another one is tried; it need not make sense."""
    takes_one = {"function", "consumer"}
    known: dict[str, Any] = {
        "topic": "topic",
        "topics": "topic",
        "name": "name",
        "source_name": "source",
        "processor_name": "processor",
        "supplier": Stores.persistent_key_value_store("other"),
    }
    if parameter.name in known:
        return known[parameter.name]
    if parameter.name in takes_one:
        return lambda one: one
    return lambda *arguments: arguments


ALL = [
    (f"{where}({parameter})", where, function, parameter, signature)
    for where, function, parameter, signature in calls()
    if signature.parameters[parameter].annotation not in ("Any", "object")
]


@pytest.mark.parametrize(
    ("where", "function", "parameter", "signature"), [each[1:] for each in ALL], ids=[each[0] for each in ALL]
)
def test_every_argument_of_every_method_refuses_a_wrong_object_by_name(
    where: str, function: Callable[..., Any], parameter: str, signature: inspect.Signature
) -> None:
    for wrong in (Wrong(), 3.5, b"bytes", LongSerde):
        if isinstance(wrong, type) and parameter in MAY_BE_CLASSES:
            continue
        positional, named = arguments(signature, parameter, wrong)
        with pytest.raises((TopologyError, ConfigurationError)) as raised:
            function(*positional, **named)
        assert where.rpartition(".")[2] in str(raised.value), wrong
        assert raised.value.remedy, wrong


def arguments(signature: inspect.Signature, parameter: str, wrong: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments up to a parameter, which gets ``wrong``."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, each in signature.parameters.items():
        value = wrong if name == parameter else good(each) if each.default is each.empty else each.default
        if each.kind is each.VAR_KEYWORD:
            named["field"] = value
        elif each.kind is each.KEYWORD_ONLY:
            named[name] = value
        elif each.kind is not each.VAR_POSITIONAL or name == parameter:
            positional.append(value)
        if name == parameter:
            break
    return positional, named


@pytest.mark.parametrize("where", sorted({each[1] for each in ALL}))
def test_an_argument_too_many_is_answered_with_the_parameters(where: str) -> None:
    function = next(each[2] for each in ALL if each[1] == where)
    with pytest.raises(TopologyError, match=re.escape(where.rpartition(".")[2])) as raised:
        function(no_such_parameter=1)
    assert "no_such_parameter" in str(raised.value) or "missing" in str(raised.value)
    assert "call it as" in raised.value.remedy


def test_every_annotation_of_the_dsl_says_which_classes_it_takes() -> None:
    """A name that cannot be found counts as any type, so a new one would be left unchecked."""
    unknown = set()
    for where, function, parameter, signature in calls():
        text = signature.parameters[parameter].annotation
        raw = inspect.unwrap(inspect.getattr_static(function, "__init__") if isinstance(function, type) else function)
        raw = getattr(raw, "__func__", raw)
        if parameter in _types(raw) and _types(raw)[parameter] is Any and text not in ("Any", "object"):
            unknown.add(f"{where}({parameter}: {text})")
    assert unknown == set()


async def async_function(*_: Any) -> bool:
    return True


async def async_generator(*_: Any) -> Any:
    yield True


class AsyncObject:
    async def __call__(self, *_: Any) -> bool:
        return True


class WithAsyncMethod:
    async def method(self, *_: Any) -> bool:
        return True


def generator(*_: Any) -> Any:
    yield True


ASYNC: dict[str, Any] = {
    "function": async_function,
    "lambda's function": functools.partial(async_function),
    "generator": async_generator,
    "object": AsyncObject(),
    "partial of an object": functools.partial(AsyncObject(), 1),
    "method": WithAsyncMethod().method,
    "cached": functools.lru_cache(async_function),
}

TAKE_CALLABLES: dict[str, Callable[[Any], Any]] = {
    "filter": lambda f: stream().filter(f),
    "filter_not": lambda f: stream().filter_not(f),
    "map": lambda f: stream().map(f),
    "map_values": lambda f: stream().map_values(f),
    "flat_map": lambda f: stream().flat_map(f),
    "flat_map_values": lambda f: stream().flat_map_values(f),
    "select_key": lambda f: stream().select_key(f),
    "peek": lambda f: stream().peek(f),
    "foreach": lambda f: stream().foreach(f),
    "group_by": lambda f: stream().group_by(f),
    "process": lambda f: stream().process(f),
    "process_values": lambda f: stream().process_values(f),
    "transform_frame": lambda f: stream().transform_frame(f),
    "to": lambda f: stream().to(f),
    "branch": lambda f: stream().split().branch(f),
    "with_function": dsl.Branched.with_function,
    "with_consumer": dsl.Branched.with_consumer,
    "with_timestamp_extractor": lambda f: Consumed().with_timestamp_extractor(f),
    "timestamp_extractor": lambda f: Consumed(timestamp_extractor=f),
    "with_stream_partitioner": lambda f: Produced().with_stream_partitioner(f),
    "stream_partitioner": lambda f: dsl.Repartitioned(stream_partitioner=f),
    "other_partitioner": lambda f: dsl.TableJoined.with_(None, f),
    "reduce": lambda f: stream().group_by_key().reduce(f),
    "initializer": lambda f: stream().group_by_key().aggregate(f, lambda key, value, aggregate: aggregate),
    "adder": lambda f: stream().group_by_key().aggregate(int, f),
    "cogroup": lambda f: stream().group_by_key().cogroup(f),
    "merger": lambda f: (
        stream()
        .group_by_key()
        .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1))
        .aggregate(int, lambda key, value, aggregate: aggregate, f)
    ),
    "subtractor": lambda f: (
        table().group_by(lambda key, value: (key, value)).reduce(lambda aggregate, value: aggregate, f)
    ),
    "KTable.filter": lambda f: table().filter(f),
    "KTable.map_values": lambda f: table().map_values(f),
    "KTable.transform_values": lambda f: table().transform_values(f),
    "KTable.group_by": lambda f: table().group_by(f),
    "KTable.to_stream": lambda f: table().to_stream(f),
    "custom store": lambda f: Stores.custom_key_value_store("own", f),
    "serializer": lambda f: serde_from(f, lambda data: data),
    "deserializer": lambda f: serde_from(lambda value: b"", f),
    "add_processor": lambda f: Topology().add_source("source", "in").add_processor("node", f, "source"),
    "add_sink": lambda f: Topology().add_source("source", "in").add_sink("sink", "out", "source", partitioner=f),
}


def join(f: Any) -> Any:
    builder = StreamsBuilder()
    return stream(builder).join(builder.table("table", READ), f)


def join_streams(f: Any) -> Any:
    builder = StreamsBuilder()
    return stream(builder).join(
        builder.stream("other", READ), f, JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
    )


def join_globally(f: Any) -> Any:
    builder = StreamsBuilder()
    return stream(builder).join(builder.global_table("table", READ), f, lambda value, row: row)


def join_tables(f: Any) -> Any:
    builder = StreamsBuilder()
    return builder.table("one", READ).join(builder.table("two", READ), f)


def join_by_foreign_key(f: Any) -> Any:
    builder = StreamsBuilder()
    return builder.table("one", READ).join(
        builder.table("two", READ), lambda value, other: value, foreign_key_extractor=f
    )


TAKE_CALLABLES |= {
    each.__name__: each for each in (join, join_streams, join_globally, join_tables, join_by_foreign_key)
}


@pytest.mark.parametrize("what", ASYNC)
@pytest.mark.parametrize("where", TAKE_CALLABLES)
def test_an_async_callable_is_refused_wherever_one_is_taken(where: str, what: str) -> None:
    with pytest.raises((TopologyError, ConfigurationError), match=r"an async (function|generator)") as raised:
        TAKE_CALLABLES[where](ASYNC[what])
    assert "plain function" in raised.value.remedy


@pytest.mark.parametrize(
    "where",
    [
        each
        for each in TAKE_CALLABLES
        if each
        not in (
            "flat_map",
            "flat_map_values",
            "serializer",
            "deserializer",
            *[f.__name__ for f in (join, join_streams, join_globally)],
        )
    ],
)
def test_a_generator_function_is_refused_where_its_body_would_not_run(where: str) -> None:
    with pytest.raises((TopologyError, ConfigurationError), match=r"generator"):
        TAKE_CALLABLES[where](generator)


def test_a_generator_function_may_give_several_records() -> None:
    builder = StreamsBuilder()

    def twice(_key: Any, value: Any) -> Any:
        yield value
        yield value

    stream(builder).flat_map_values(twice).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1)
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("k", 1), ("k", 1)]


class AsyncProcessor(Processor[Any, Any]):
    async def process(self, record: Record[Any, Any], /) -> None:  # type: ignore[override]
        """Never runs."""


class YieldingProcessor(Processor[Any, Any]):
    def process(self, record: Record[Any, Any], /) -> Any:
        yield record


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (AsyncProcessor, r"AsyncProcessor, has a method process\(\) that is an async function"),
        (YieldingProcessor, r"has a method process\(\) that is a generator function"),
        (dict, r"dict, has no method process\(\)"),
    ],
)
def test_a_processor_whose_body_would_not_run_is_refused(supplier: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        stream().process(supplier)


def test_a_lambda_around_an_async_function_is_found_at_the_first_record() -> None:
    builder = StreamsBuilder()
    stream(builder).filter(lambda key, value: async_function(key), named="check").to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(Exception, match=r"of node check returned a coroutine, which nothing awaits"),
    ):
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1)


MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a serde's class": (
        lambda: Consumed.with_(StringSerde, JSON),  # type: ignore[arg-type]
        r"Consumed.with_\(\): key_serde is the class StringSerde, and a serde is expected",
        r"StringSerde\(\)",
    ),
    "a serde's class in the constructor": (
        lambda: Produced(value_serde=JsonSerde),  # type: ignore[arg-type]
        r"Produced\(\): value_serde is the class JsonSerde",
        r"JsonSerde\(\)",
    ),
    "a serde's class inside of another": (
        lambda: TimeWindowedSerde(StringSerde, 10),  # type: ignore[arg-type]
        r"TimeWindowedSerde: inner is the class StringSerde",
        r"StringSerde\(\)",
    ),
    "a serde's name": (
        lambda: Grouped.with_("string", "json"),  # type: ignore[arg-type]
        r"Grouped.with_\(\): key_serde is 'string'",
        r"pass StringSerde\(\); names are for default.key.serde",
    ),
    "no serde": (
        lambda: Materialized.with_(TEXT, 3),  # type: ignore[arg-type]
        r"Materialized.with_\(\): value_serde is 3 \(int\)",
        r"serde_from\(\)",
    ),
    "Consumed for Produced": (
        lambda: stream().to("out", READ),  # type: ignore[arg-type]
        r"KStream.to\('out'\) behind KSTREAM-SOURCE-0000000000: produced is Consumed",
        r"a Produced; Consumed is for stream\(\), table\(\) and global_table\(\)",
    ),
    "Produced for Consumed": (
        lambda: StreamsBuilder().table("in", Produced.with_(TEXT, JSON)),  # type: ignore[arg-type]
        r"StreamsBuilder.table\('in'\): consumed is Produced",
        r"a Consumed; Produced is for to\(\)",
    ),
    "a serde for an option object": (
        lambda: stream().group_by_key(TEXT),  # type: ignore[arg-type]
        r"KStream.group_by_key\(\) behind KSTREAM-SOURCE-0000000000: grouped is StringSerde",
        r"Grouped.with_",
    ),
    "count of a name": (
        lambda: stream().group_by_key().count("counts"),  # type: ignore[arg-type]
        r"KGroupedStream.count\(\) behind KSTREAM-SOURCE-0000000000: materialized is 'counts' \(str\)",
        r"Materialized.as_\('counts'\), or named='counts' to name the node",
    ),
    "count of Named": (
        lambda: stream().group_by_key().count(Named.as_("counts")),  # type: ignore[arg-type]
        r"materialized is Named\(name='counts'\)",
        r"named=Named\(name='counts'\)",
    ),
    "a supplier for a builder": (
        lambda: StreamsBuilder().add_state_store(Stores.persistent_key_value_store("s")),  # type: ignore[arg-type]
        r"StreamsBuilder.add_state_store\(\): builder is StoreSupplier",
        r"Stores.key_value_store_builder",
    ),
    "an option object's class": (
        lambda: stream().to("out", Produced),  # type: ignore[arg-type]
        r"produced is the class Produced",
        r"an object of it, not the class Produced",
    ),
    "an enumeration's text": (
        lambda: windowed().emit_strategy("on window close"),  # type: ignore[arg-type]
        r"emit_strategy is 'on window close'",
        r"EmitStrategy.WINDOW_CLOSE",
    ),
    "a duration's text": (
        lambda: TimeWindows.of_size_with_no_grace("1h"),  # type: ignore[arg-type]
        r"TimeWindows.of_size_with_no_grace\(\): size is '1h' \(str\)",
        r"a timedelta or a whole number",
    ),
    "an expression for a function": (
        lambda: stream().foreach(pc.field("x")),  # type: ignore[arg-type]
        r"action is .*, which is not callable",
        r"a function",
    ),
    "a function for an aggregator's field": (
        lambda: aggregators.sum_(len),  # type: ignore[arg-type]
        r"sum_\(\): field is",
        r"a string",
    ),
    "no adder": (
        lambda: stream().group_by_key().aggregate(int),
        r"there is no adder",
        r"aggregators.count\(\)",
    ),
    "a table that is no KTable": (
        lambda: stream().join("table", lambda value, row: row),  # type: ignore[call-overload]
        r"KStream.join\(\) behind KSTREAM-SOURCE-0000000000: other is 'table' \(str\)",
        r"KStream.join\(table, joiner, joined=None, \*, joiner_takes_key=None\)",
    ),
    "a stream for its topology": (
        lambda: TopologyTestDriver(stream()),  # type: ignore[arg-type]
        r"TopologyTestDriver\(\): topology is .*KStream",
        r"StreamsBuilder",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_remedy(mistake: str) -> None:
    make, message, remedy = MISTAKES[mistake]
    with pytest.raises((TopologyError, ConfigurationError), match=message) as raised:
        make()
    assert re.search(remedy, raised.value.remedy)


@pytest.mark.parametrize("chosen", [1.0, "0", True, [1.0], {"0"}])
def test_a_partitioner_that_gives_no_number_is_named_with_its_topic(chosen: Any) -> None:
    builder = StreamsBuilder()
    produced = Produced.with_(TEXT, JSON).with_stream_partitioner(lambda topic, key, value, count: chosen)
    stream(builder).to("out", produced.with_name("sink"))
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(Exception, match=r"The partitioner of node sink chose .* of topic out"),
    ):
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1)
