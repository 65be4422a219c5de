from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.embedded.record import broker_status, start_detached, stop_detached
from millrace.errors import BrokerUnavailableError, OperationError
from millrace.home import millrace_home
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import CommittedOffset, committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from tests.records import read_topic
from tests.waiting import eventually


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of this module's own, for tests that kill it."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties={"offsets.retention.minutes": "77"}) as running:
        yield running


def _write(broker: EmbeddedBroker, topic: str, value: bytes, offset: int) -> None:
    with TaskProducer(broker.bootstrap_servers, transactional_id="app-0_0") as producer:
        producer.init()
        producer.begin()
        producer.send(topic, [b"k"], [value], np.zeros(1, np.int64), partition=0)
        producer.commit({(topic, 0): (offset, "note")}, "app")


@pytest.mark.kills
def test_a_killed_broker_starts_again_on_the_same_port_with_the_same_data(broker: EmbeddedBroker) -> None:
    admin = KafkaAdmin(broker.bootstrap_servers)
    assert admin.broker_settings()["offsets.retention.minutes"] == "77", "settings of the caller win"
    admin.create_missing([TopicSpec(name="kept", partitions=1)])
    topic_id = admin.describe_topic("kept").topic_id
    _write(broker, "kept", b"1", 11)
    address, first = broker.bootstrap_servers, broker.identity
    assert first is not None
    assert "-XX:TieredStopAtLevel=1" in psutil.Process(first.pid).cmdline(), "as tests/conftest.py asks for"

    broker.kill()
    assert not broker.is_running()
    with pytest.raises(BrokerUnavailableError):
        KafkaAdmin(address, timeout_s=1).number_of_brokers()
    broker.start()

    assert (broker.bootstrap_servers, broker.identity == first) == (address, False)
    again = KafkaAdmin(address)
    assert again.describe_topic("kept").topic_id == topic_id
    # The commit was decided before the crash; its marker may be written only now, or once more.
    eventually(lambda: end_offsets(again, [("kept", 0)])["kept", 0] in {2, 3}, True)
    assert [each.value for each in read_topic(address, "kept")] == [b"1"]
    assert committed_offsets(again, "app", [("kept", 0)]) == {("kept", 0): CommittedOffset(11, "note")}
    _write(broker, "kept", b"2", 12)
    assert committed_offsets(again, "app", [("kept", 0)]) == {("kept", 0): CommittedOffset(12, "note")}
    assert committed_offsets(admin, "app")["kept", 0].offset == 12, "asked by a client that has outlived the broker"


@pytest.mark.kills
def test_a_producer_that_was_open_when_the_broker_was_killed_goes_on(broker: EmbeddedBroker) -> None:
    """Up to the producer's limit; librdkafka 2.16 never came back from sending the offsets (issues 5456 and 5511)."""
    KafkaAdmin(broker.bootstrap_servers).create_missing([TopicSpec(name="on", partitions=1)])
    with TaskProducer(broker.bootstrap_servers, transactional_id="app-0_1", timeout_s=60) as producer:
        producer.init()
        for batch in range(3):
            producer.begin()
            producer.send("on", [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
            if batch == 1:
                producer.flush()
                broker.kill()
                broker.start()
            producer.commit({("on", 0): (batch, "note")}, "open")
    admin = KafkaAdmin(broker.bootstrap_servers)
    assert committed_offsets(admin, "open", [("on", 0)]) == {("on", 0): CommittedOffset(2, "note")}
    eventually(lambda: end_offsets(admin, [("on", 0)]), {("on", 0): 6})


def test_a_running_broker_is_not_started_twice(broker: EmbeddedBroker) -> None:
    with pytest.raises(OperationError, match="runs already"):
        broker.start()
    with pytest.raises(OperationError, match=r"Port \d+ is taken"):
        EmbeddedBroker(broker.directory).start()


def test_the_installations_broker_outlives_its_starter_and_is_found_by_its_record(tmp_path: Path) -> None:
    (tmp_path / "jars").symlink_to(millrace_home() / "jars")
    assert not broker_status(tmp_path).running
    assert stop_detached(tmp_path) is False
    start = "import sys; from pathlib import Path; from millrace.embedded.record import start_detached;"
    subprocess.run(
        [sys.executable, "-c", f"{start} start_detached(Path(sys.argv[1]))", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": "jobs"},
        check=True,
    )
    try:
        status = broker_status(tmp_path)
        assert (status.running, status.answers) == (True, True)
        assert start_detached(tmp_path).process == status.process, "it is not started twice"
        record = json.loads((tmp_path / "broker" / "broker.json").read_text())
        assert set(record) == {"pid", "start_time", "bootstrap_servers"}
        assert KafkaAdmin(record["bootstrap_servers"]).number_of_brokers() == 1
    finally:
        stopped = stop_detached(tmp_path)
    assert stopped
    assert status.process is not None
    assert not status.process.is_alive()
    assert not broker_status(tmp_path).running


def test_a_record_of_a_process_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    directory = tmp_path / "broker"
    directory.mkdir()
    record = {"pid": os.getpid(), "start_time": 1, "bootstrap_servers": "127.0.0.1:1"}
    (directory / "broker.json").write_text(json.dumps(record))
    assert not broker_status(tmp_path).running
    assert stop_detached(tmp_path) is False
    assert Path("/proc/self").exists(), "this very process has that number and lives"
