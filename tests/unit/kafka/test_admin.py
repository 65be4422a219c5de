"""What the administrator of a cluster sees of topics that it has just created."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicDescription
from tests.imitated_cluster import ImitatedCluster

TOPIC = TopicDescription(name="orders", topic_id="id", partitions=1, replication_factor=3)


class Brokers:
    """The first of them have not heard of the topic yet."""

    def __init__(self, late: int) -> None:
        self.late = late
        self.asked = 0

    def described(self, names: Collection[str]) -> dict[str, TopicDescription]:
        self.asked += 1
        return {TOPIC.name: TOPIC} if TOPIC.name in names and self.asked > self.late else {}


def admin_of(cluster: ImitatedCluster, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout_s=0.5)
    monkeypatch.setattr(admin, "_described", brokers.described)
    return admin


def test_a_topic_that_was_created_here_is_waited_for(cluster: ImitatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = admin_of(cluster, brokers := Brokers(late=3), monkeypatch)
    admin._made = {"orders": 1e12}
    assert admin.describe_topic("orders") == TOPIC
    assert brokers.asked == 4


def test_another_one_is_not_and_nor_is_one_that_does_not_come(
    cluster: ImitatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = admin_of(cluster, brokers := Brokers(late=1_000), monkeypatch)
    assert admin.describe_topics(["orders"]) == {}
    assert brokers.asked == 1
    admin._made = {"orders": 1e12}
    assert admin.describe_topics(["orders"]) == {}
    assert brokers.asked > 2
