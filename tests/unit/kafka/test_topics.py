from __future__ import annotations

from dataclasses import replace

from millrace.kafka.topics import changelog_topic, repartition_topic
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
