from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from millrace.embedded.broker import free_ports
from millrace.errors import BrokerUnavailableError, PreflightError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import begin_offsets
from millrace.kafka.topics import TopicSpec, changelog_topic, repartition_topic
from millrace.topology.nodes import RepartitionTopicSpec
from millrace.topology.stores import StoreKind, StoreSpec


@pytest.fixture
def admin(bootstrap_servers: str) -> KafkaAdmin:
    return KafkaAdmin(bootstrap_servers)


def test_missing_topics_are_created_once_by_any_number_of_callers(admin: KafkaAdmin, unique: str) -> None:
    specs = [TopicSpec(name=f"{unique}-{name}", partitions=3, settings={"retention.ms": "-1"}) for name in "abc"]
    with ThreadPoolExecutor(4) as pool:
        created = [name for names in pool.map(lambda _: admin.create_missing(specs), range(4)) for name in names]
    assert sorted(created) == [spec.name for spec in specs]
    described = admin.describe_topics([spec.name for spec in specs])
    assert {topic.partitions for topic in described.values()} == {3}
    assert admin.topic_settings(f"{unique}-a")["retention.ms"] == "-1"
    admin.delete_topics([spec.name for spec in specs])


def test_an_existing_topic_with_another_partition_count_is_refused_and_nothing_is_created(
    admin: KafkaAdmin, make_topic, unique: str
) -> None:
    existing = make_topic("in", partitions=2)
    with pytest.raises(PreflightError, match=f"{existing} has 2 partitions, and 4 are needed"):
        admin.create_missing([TopicSpec(name=f"{unique}-new", partitions=1), TopicSpec(name=existing, partitions=4)])
    assert admin.describe_topics([f"{unique}-new"]) == {}
    assert admin.create_missing([TopicSpec(name=existing)]) == (), "no count asked for, none compared"


def test_a_topic_made_anew_under_its_old_name_has_another_id(admin: KafkaAdmin, unique: str) -> None:
    spec = TopicSpec(name=f"{unique}-in", partitions=1)
    admin.create_missing([spec])
    first = admin.describe_topic(spec.name).topic_id
    assert admin.describe_topic(spec.name).topic_id == first
    admin.delete_topics([spec.name])
    admin.create_missing([spec])
    assert admin.describe_topic(spec.name).topic_id != first
    admin.delete_topics([spec.name])


def test_a_setting_that_the_broker_does_not_know_is_refused_with_the_topic_named(
    admin: KafkaAdmin, unique: str
) -> None:
    with pytest.raises(PreflightError, match=f"{unique}-bad"):
        admin.create_missing([TopicSpec(name=f"{unique}-bad", partitions=1, settings={"cleanup.policy": "burn"})])
    with pytest.raises(PreflightError, match="does not exist"):
        admin.describe_topic(f"{unique}-bad")


def test_internal_topics_get_the_settings_that_kafka_streams_gives_them(admin: KafkaAdmin, unique: str) -> None:
    """Case W19."""
    counts = StoreSpec(name="counts", kind=StoreKind.KEY_VALUE)
    windows = StoreSpec(name="windows", kind=StoreKind.WINDOW, window_size_ms=300_000, retention_ms=360_000)
    specs = [
        changelog_topic(counts, unique, partitions=1),
        changelog_topic(windows, unique, partitions=1),
        repartition_topic(RepartitionTopicSpec(name="by-user-repartition"), unique, partitions=1),
    ]
    made = [spec for spec in specs if spec is not None]
    admin.create_missing(made)
    key_value, windowed, repartition = (admin.topic_settings(spec.name) for spec in made)
    assert key_value["cleanup.policy"] == "compact"
    assert sorted(windowed["cleanup.policy"].split(",")) == ["compact", "delete"]
    assert windowed["retention.ms"] == "86760000"
    assert (repartition["cleanup.policy"], repartition["retention.ms"]) == ("delete", "-1")
    assert repartition["segment.bytes"] == "52428800"
    assert {each["message.timestamp.type"] for each in (key_value, windowed, repartition)} == {"CreateTime"}
    admin.delete_topics([spec.name for spec in made])


def test_partitions_are_added_and_processed_records_deleted(
    admin: KafkaAdmin, make_topic, open_producer, unique: str
) -> None:
    topic = make_topic("in", partitions=1)
    admin.add_partitions(topic, 3)
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer.send(topic, [b"k"] * 5, [b"v"] * 5, np.zeros(5, np.int64), partition=0)
    producer.commit({}, unique)
    assert admin.delete_records({(topic, 0): 4}) == {(topic, 0): 4}
    assert begin_offsets(admin, [(topic, 0), (topic, 2)]) == {(topic, 0): 4, (topic, 2): 0}


def test_limits_of_the_broker_are_known(admin: KafkaAdmin, make_topic) -> None:
    topic = make_topic("in", max_message_bytes="5000")
    assert admin.number_of_brokers() == 1
    assert admin.topic_limits([topic])[topic].max_message_bytes == 5_000


def test_where_nobody_listens_every_question_ends_within_seconds() -> None:
    admin = KafkaAdmin(f"127.0.0.1:{free_ports(1)[0]}", timeout_s=1)
    begun = time.monotonic()
    for ask in (
        admin.number_of_brokers,
        lambda: admin.describe_topics(["t"]),
        lambda: begin_offsets(admin, [("t", 0)]),
    ):
        with pytest.raises(BrokerUnavailableError, match="millrace broker start"):
            ask()
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    "settings",
    [
        {"security.protocol": "ssl"},
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "somebody",
            "sasl.password": "wrong",
        },
    ],
    ids=lambda settings: settings["security.protocol"],
)
def test_a_refused_connection_is_told_apart_from_a_broker_that_is_down(
    bootstrap_servers: str, settings: dict[str, str]
) -> None:
    admin = KafkaAdmin(bootstrap_servers, settings=settings, timeout_s=2)
    with pytest.raises(PreflightError, match=r"security\.protocol") as raised:
        admin.number_of_brokers()
    assert not isinstance(raised.value, BrokerUnavailableError)


def test_names_that_the_broker_would_refuse_are_named_before_anything_is_created(
    bootstrap_servers: str, unique: str, make_topic
) -> None:
    """Case S19."""
    admin = KafkaAdmin(bootstrap_servers)
    dotted = make_topic("a.b")
    fits = TopicSpec(name=f"{unique}-fits", partitions=1)
    for name, reason in (
        (f"{unique}-a_b", f"{unique}-a_b and {dotted}, which exists"),
        ("x" * 250, "has 250 characters, and the limit is 249"),
        ("a b", "characters that are not legal: ' '"),
        ("..", r"\.\. is reserved"),
    ):
        with pytest.raises(PreflightError, match=reason):
            admin.create_missing([fits, TopicSpec(name=name, partitions=1)])
    assert admin.describe_topics([fits.name]) == {}
