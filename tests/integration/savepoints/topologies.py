"""What the tests of savepoints run: counts by key, by window, and behind a repartition topic."""

from __future__ import annotations

import os

from millrace.dsl import Consumed, Grouped, Materialized, Produced, Stores, StreamsBuilder, TimeWindows
from millrace.serdes import LongSerde, StringSerde, TimeWindowedSerde
from tests.application import topic
from tests.sqlite_store import SqliteStore

OUTPUT_VARIABLE = "MILLRACE_TEST_OUTPUT"
INPUT_VARIABLE = "MILLRACE_TEST_INPUT"
WINDOW_MS = 1_000
BUCKETS = 7
COUNTS = Produced.with_(StringSerde(), LongSerde())


def output(name: str) -> str:
    """An output topic; a clone has others."""
    return topic(os.environ.get(OUTPUT_VARIABLE, "") + name)


def bucket(key: str) -> str:
    """The bucket of a key."""
    return f"bucket-{sum(key.encode()) % BUCKETS}"


def counting(builder: StreamsBuilder) -> None:
    """Counts by key, by key and window, and by bucket behind a repartition topic."""
    stream = builder.stream(topic(os.environ.get(INPUT_VARIABLE, "in")), Consumed.with_(StringSerde(), StringSerde()))
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("by-key").with_caching_disabled()).to_stream().to(output("by-key"), COUNTS)
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(WINDOW_MS)).count(
        Materialized.as_("by-window")
    ).to_stream().to(output("by-window"), Produced.with_(TimeWindowedSerde(StringSerde(), WINDOW_MS), LongSerde()))
    stream.group_by(
        lambda key, value: bucket(key),
        Grouped.as_("buckets").with_key_serde(StringSerde()).with_value_serde(StringSerde()),
    ).count(Materialized.as_("by-bucket").with_caching_disabled()).to_stream().to(output("by-bucket"), COUNTS)


def counting_elsewhere(builder: StreamsBuilder) -> None:
    """Counts by key in memory, and in stores of the user's own."""
    grouped = builder.stream(topic("in"), Consumed.with_(StringSerde(), StringSerde())).group_by_key()
    memory = Materialized.as_(Stores.in_memory_key_value_store("memory")).with_caching_disabled()
    grouped.count(memory).to_stream().to(output("by-key"), COUNTS)
    own = Materialized.as_(Stores.custom_key_value_store("own", SqliteStore)).with_caching_disabled()
    grouped.count(own).to_stream().to(output("by-window"), COUNTS)


def counting_without_windows(builder: StreamsBuilder) -> None:
    """As :func:`counting`, without the store of the windows."""
    stream = builder.stream(topic(os.environ.get(INPUT_VARIABLE, "in")), Consumed.with_(StringSerde(), StringSerde()))
    stream.group_by_key().count(Materialized.as_("by-key").with_caching_disabled()).to_stream().to(
        output("by-key"), COUNTS
    )
    stream.group_by(
        lambda key, value: bucket(key),
        Grouped.as_("buckets").with_key_serde(StringSerde()).with_value_serde(StringSerde()),
    ).count(Materialized.as_("by-bucket").with_caching_disabled()).to_stream().to(output("by-bucket"), COUNTS)


def counting_more_and_failing(builder: StreamsBuilder) -> None:
    """As :func:`counting`, with one more store, in front of which every record fails."""
    counting(builder)
    stream = builder.stream(topic("more"), Consumed.with_(StringSerde(), StringSerde()))
    stream.map_values(_fail).group_by_key().count(Materialized.as_("more"))


def _fail(key: str, value: str) -> str:
    raise ValueError(f"the new version does not like {value} of {key}")


def counting_differently(builder: StreamsBuilder) -> None:
    """As :func:`counting`, but the counts by bucket are told twice as high."""
    stream = builder.stream(topic(os.environ.get(INPUT_VARIABLE, "in")), Consumed.with_(StringSerde(), StringSerde()))
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("by-key").with_caching_disabled()).to_stream().to(output("by-key"), COUNTS)
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(WINDOW_MS)).count(
        Materialized.as_("by-window")
    ).to_stream().to(output("by-window"), Produced.with_(TimeWindowedSerde(StringSerde(), WINDOW_MS), LongSerde()))
    counts = stream.group_by(
        lambda key, value: bucket(key),
        Grouped.as_("buckets").with_key_serde(StringSerde()).with_value_serde(StringSerde()),
    ).count(Materialized.as_("by-bucket").with_caching_disabled())
    counts.to_stream().map_values(lambda key, count: 2 * count).to(output("by-bucket"), COUNTS)


def counting_with_one_more(builder: StreamsBuilder) -> None:
    """As :func:`counting`, with one more store."""
    counting(builder)
    stream = builder.stream(topic("by-key"), Consumed.with_(StringSerde(), LongSerde()))
    stream.group_by_key().count(Materialized.as_("more"))
