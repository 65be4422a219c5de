"""A producer that dies inside a transaction whose offsets are sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets

_DYING_PRODUCER = """
import os, signal, sys
import numpy as np
from confluent_kafka import TopicPartition
from millrace.kafka.producer import TaskProducer
from millrace.kafka.group_commits import group_metadata

address, topic, group = sys.argv[1:]
producer = TaskProducer(address, transactional_id=group + "-0_0")
producer.init()
producer.begin()
producer.send(topic, [b"k"], [b"lost"], np.zeros(1, np.int64), partition=0)
producer.flush()
producer._client.send_offsets_to_transaction([TopicPartition(topic, 0, 99)], group_metadata(group), 30)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.kills
def test_a_crash_inside_a_transaction_with_offsets_does_not_delay_the_next_attempt(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    topic = make_topic("out")
    died = subprocess.run(
        [sys.executable, "-c", _DYING_PRODUCER, bootstrap_servers, topic, unique],
        env={**os.environ, "PYTHONPATH": "jobs"},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    begun = time.monotonic()
    producer = open_producer(f"{unique}-0_0")
    assert committed_offsets(KafkaAdmin(bootstrap_servers), unique, [(topic, 0)]) == {}
    producer.begin()
    producer.send(topic, [b"k"], [b"kept"], np.zeros(1, np.int64), partition=0)
    producer.commit({(topic, 0): (1, "")}, unique)
    assert time.monotonic() - begun < 10
    assert [record.value for record in read_all(topic)] == [b"kept"]
    assert committed_offsets(KafkaAdmin(bootstrap_servers), unique, [(topic, 0)])[topic, 0].offset == 1
