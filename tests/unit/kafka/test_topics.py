from __future__ import annotations

from dataclasses import replace

from millrace.kafka.topics import (
    changelog_topic,
    damaging_settings,
    lower_limits,
    repartition_topic,
    with_limits_of_inputs,
)
from millrace.topology.nodes import RepartitionTopicSpec
from millrace.topology.stores import StoreKind, StoreSpec

WINDOWS = StoreSpec(name="w", kind=StoreKind.WINDOW, window_size_ms=300_000, retention_ms=360_000)


def test_changelogs_are_compacted_and_those_of_windows_expire_too() -> None:
    """Case W19."""
    key_value = changelog_topic(StoreSpec(name="c", kind=StoreKind.KEY_VALUE), "app", partitions=4)
    windowed = changelog_topic(WINDOWS, "app", partitions=4, replication_factor=3)
    assert key_value is not None
    assert windowed is not None
    assert (key_value.name, key_value.partitions, key_value.replication_factor) == ("app-c-changelog", 4, -1)
    assert key_value.settings == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert windowed.replication_factor == 3
    assert windowed.settings == {
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "86760000",
    }


def test_own_settings_of_a_store_win_over_the_configurations_which_win_over_the_defaults() -> None:
    store = StoreSpec(
        name="w", kind=StoreKind.WINDOW, retention_ms=1, changelog_settings=(("retention.ms", "7"), ("a", "store"))
    )
    made = changelog_topic(store, "app", partitions=1, defaults={"a": "all", "b": "all", "cleanup.policy": "delete"})
    assert made is not None
    assert made.settings == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "7",
        "a": "store",
        "b": "all",
    }


def test_a_retention_beyond_a_long_is_the_longest_there_is() -> None:
    store = StoreSpec(name="w", kind=StoreKind.WINDOW, retention_ms=2**63 - 1)
    made = changelog_topic(store, "app", partitions=1)
    assert made is not None
    assert made.settings["retention.ms"] == str(2**63 - 1)


def test_a_store_without_a_changelog_of_its_own_gets_no_topic() -> None:
    unlogged = StoreSpec(name="c", kind=StoreKind.KEY_VALUE, logged=False)
    on_source = StoreSpec(name="c", kind=StoreKind.KEY_VALUE, source_topic="users")
    assert changelog_topic(unlogged, "app", partitions=1) is None
    assert changelog_topic(on_source, "app", partitions=1) is None


def test_a_repartition_topic_keeps_its_records_until_they_are_processed() -> None:
    """Case W19."""
    made = repartition_topic(RepartitionTopicSpec(name="by-user-repartition"), "app", partitions=4)
    assert (made.name, made.partitions) == ("app-by-user-repartition", 4)
    assert made.settings == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    }
    assert repartition_topic(RepartitionTopicSpec(name="r", partitions=9), "app", partitions=4).partitions == 9


def test_the_changelog_of_a_join_buffer_is_not_compacted_whatever_is_set() -> None:
    buffer = replace(WINDOWS, retains_duplicates=True, changelog_settings=(("cleanup.policy", "compact"),))
    topic = changelog_topic(buffer, "app", partitions=4)
    assert topic is not None
    assert topic.settings["cleanup.policy"] == "delete"
    assert topic.settings["retention.ms"] == str(360_000 + 86_400_000)


LARGEST = str(2**63 - 1)
INPUT = {
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": LARGEST,
}


def test_an_internal_topic_takes_what_the_inputs_have_taken() -> None:
    """Case E16: times far ahead, and records as large as the largest of any input."""
    topic = repartition_topic(RepartitionTopicSpec(name="r"), "app", partitions=1)
    made = with_limits_of_inputs(topic, [INPUT, {**INPUT, "max.message.bytes": "60000000"}])
    assert made.settings["message.timestamp.after.max.ms"] == LARGEST
    assert made.settings["message.timestamp.before.max.ms"] == LARGEST
    assert int(made.settings["max.message.bytes"]) > 60_000_000
    assert int(made.settings["segment.bytes"]) >= int(made.settings["max.message.bytes"])
    assert int(with_limits_of_inputs(topic, [INPUT], values=2).settings["max.message.bytes"]) > 2 * 1_048_588


def test_limits_of_internal_topics_are_never_below_the_brokers_and_never_above_the_users() -> None:
    topic = repartition_topic(RepartitionTopicSpec(name="r"), "app", partitions=1)
    assert "max.message.bytes" not in with_limits_of_inputs(topic, [INPUT], broker_max_message_bytes=9_000_000).settings
    own = repartition_topic(RepartitionTopicSpec(name="r"), "app", partitions=1, defaults={"max.message.bytes": "7"})
    assert with_limits_of_inputs(own, [INPUT]).settings["max.message.bytes"] == "7"
    old_broker = {"max.message.bytes": "1048588", "message.timestamp.difference.max.ms": "1"}
    made = with_limits_of_inputs(topic, [old_broker]).settings
    assert made["message.timestamp.difference.max.ms"] == LARGEST
    assert "message.timestamp.after.max.ms" not in made, "brokers before 3.6 do not know it"


def test_what_existing_internal_topics_refuse_or_damage_is_known() -> None:
    wanted = with_limits_of_inputs(repartition_topic(RepartitionTopicSpec(name="r"), "app", partitions=1), [INPUT])
    there = {**INPUT, "segment.bytes": "52428800", "message.timestamp.type": "CreateTime", "cleanup.policy": "delete"}
    assert lower_limits(wanted, there).keys() == {"message.timestamp.after.max.ms", "max.message.bytes"}
    assert lower_limits(wanted, {**there, **wanted.settings}) == {}
    assert damaging_settings("app-r", there) == ""
    assert "lose their event times" in damaging_settings("app-r", {**there, "message.timestamp.type": "LogAppendTime"})
    compacted = {**there, "cleanup.policy": "compact"}
    assert "lost between two tasks" in damaging_settings("app-r-repartition", compacted)
    assert damaging_settings("app-s-changelog", compacted) == ""
