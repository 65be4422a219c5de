"""Three brokers: what was committed outlives the one that led it, and a transaction that was open goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from millrace.embedded.cluster import EmbeddedCluster
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import CommittedOffset, committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from tests.records import leader_of
from tests.waiting import eventually


@pytest.mark.kills
def test_a_transaction_goes_on_when_the_leader_of_its_partition_is_killed(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path)
    try:
        cluster.start()
        started = [node.identity.pid for node in cluster.nodes if node.identity is not None]
        assert len(started) == 3
        admin = KafkaAdmin(cluster.bootstrap_servers, timeout_s=30)
        admin.create_missing([TopicSpec(name="kept", partitions=1)])
        assert admin.describe_topic("kept").replication_factor == 3
        leader = leader_of(cluster.bootstrap_servers, "kept")
        with TaskProducer(cluster.bootstrap_servers, transactional_id="app-0_0", timeout_s=180) as producer:
            producer.init()
            for batch in range(3):
                producer.begin()
                producer.send("kept", [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
                if batch == 1:
                    producer.flush()
                    cluster.nodes[leader - 1].kill()
                producer.commit({("kept", 0): (batch, "note")}, "app")
        eventually(lambda: leader_of(cluster.bootstrap_servers, "kept") not in {leader, -1}, True, limit_s=90)
        assert committed_offsets(admin, "app", [("kept", 0)]) == {("kept", 0): CommittedOffset(2, "note")}
        # Each record, and the marker behind it. This client knows the leader that is gone, and nothing of the new one.
        eventually(lambda: end_offsets(admin, [("kept", 0)]), {("kept", 0): 6}, limit_s=120)
    finally:
        cluster.stop()
    assert not any(psutil.pid_exists(pid) for pid in started)
