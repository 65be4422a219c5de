"""Clients of the broker log in as the specification says, and say clearly what was refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.errors import ConfigurationError, PreflightError
from millrace.install.connection import Connection
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.columns import PartitionReader, ReaderSettings
from millrace.kafka.columns.choice import OPENERS
from millrace.kafka.log_dirs import log_bytes
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.kafka.transactions import list_transactions
from millrace.state.changelog_reader import BrokerChangelogReader
from tests.application import SEARCH_PATH
from tests.integration.security.granting import everything
from tests.secure_broker import SecureBroker
from tests.waiting import eventually, wait_for

PASSWORD = 'with "quotes" and \\ é'


def config_of(broker: SecureBroker, login: Mapping[str, str], **other: str) -> StreamsConfig:
    named = {"application.id": "any", "bootstrap.servers": broker.bootstrap_servers}
    return StreamsConfig.from_mapping({**named, **login, **other})


@pytest.fixture(scope="module")
def login(secure_broker: SecureBroker) -> dict[str, str]:
    """The login of an operator who may do everything."""
    login = secure_broker.add_user("somebody", PASSWORD)
    secure_broker.grant(everything("somebody"))
    return {**login, "sasl.password": PASSWORD}


def test_a_login_reaches_every_client(secure_broker: SecureBroker, login: dict[str, str], unique: str) -> None:
    connection = Connection.of(config_of(secure_broker, login))
    admin = connection.administrator()
    admin.create_missing([TopicSpec(name=unique)])
    with TaskProducer(
        connection.bootstrap_servers, transactional_id=unique, settings=connection.producer, timeout_s=30
    ) as producer:
        producer.init()
        producer.begin()
        producer.send(unique, [b"k"], [b"v"], np.array([1], np.int64), partition=0)
        producer.commit({(unique, 0): (7, "")}, unique)
    reader = BrokerChangelogReader(
        unique, 0, bootstrap_servers=connection.bootstrap_servers, settings=connection.consumer
    )
    reader.start(0)
    # A commit is acknowledged before its marker is in the log.
    read = wait_for(lambda: [value for columns in reader.read() for value in columns.values.to_pylist()])
    reader.close()
    assert read == [b"v"]
    assert committed_offsets(admin, unique)[unique, 0].offset == 7
    eventually(lambda: end_offsets(admin, [(unique, 0)]), {(unique, 0): 2})
    # Those are asked by the broker's own tools, Java processes.
    assert list_transactions(connection.bootstrap_servers, settings=admin.settings)[unique] == "CompleteCommit"
    assert log_bytes(connection.bootstrap_servers, [unique], settings=admin.settings)[unique, 0] > 0


def _poll_for(reader: PartitionReader, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        assert reader.poll(1.0, 10) == []


@pytest.mark.parametrize("kind", sorted(OPENERS))
def test_a_reader_says_that_its_login_is_refused(secure_broker: SecureBroker, login: dict[str, str], kind: str) -> None:
    connection = Connection.of(config_of(secure_broker, {**login, "sasl.password": "other"}))
    reader = OPENERS[kind](
        ReaderSettings(
            bootstrap_servers=connection.bootstrap_servers, group="refused", settings=connection.consumer or {}
        )
    )
    try:
        reader.assign({("any", 0): 0})
        with pytest.raises(PreflightError, match="uthentication failed") as raised:
            _poll_for(reader, 30)
    finally:
        reader.close()
    assert "sasl" in raised.value.remedy
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"sasl.password": "other"}, "uthentication failed"),
        ({"ssl.ca.location": "other_authority"}, "certificate verify failed"),
    ],
)
def test_a_refused_login_says_why(
    secure_broker: SecureBroker, login: dict[str, str], wrong: dict[str, str], reason: str
) -> None:
    settings = {key: str(getattr(secure_broker, value, value)) for key, value in wrong.items()}
    connection = Connection.of(config_of(secure_broker, {**login, **settings}))
    admin = KafkaAdmin(connection.bootstrap_servers, settings=connection.admin, timeout_s=5)
    with pytest.raises(PreflightError, match=reason) as raised:
        admin.number_of_brokers()
    assert next(iter(wrong)).split(".")[0] in raised.value.remedy
    assert PASSWORD not in str(raised.value)
    producer = TaskProducer(
        connection.bootstrap_servers, transactional_id="refused", settings=connection.producer, timeout_s=5
    )
    with pytest.raises(PreflightError, match=reason), producer:
        producer.init()


def test_certificates_that_cannot_be_read_are_named(
    secure_broker: SecureBroker, login: dict[str, str], tmp_path: Path
) -> None:
    missing = {"ssl.ca.location": str(tmp_path / "none.pem")}
    connection = Connection.of(config_of(secure_broker, {**login, **missing}))
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location, .*none\.pem, cannot be read"):
        connection.administrator()


def test_topics_are_listed_behind_a_login(
    secure_broker: SecureBroker, login: dict[str, str], tmp_path: Path, unique: str
) -> None:
    Connection.of(config_of(secure_broker, login)).administrator().create_missing([TopicSpec(name=unique)])
    (tmp_path / "password").write_text(PASSWORD)
    lines = {**login, "sasl.password": f"${{dir:{tmp_path}:password}}"}
    file = tmp_path / "login.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    command = [sys.executable, "-m", "millrace", "topics", "list", "--bootstrap-servers"]
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    listed = subprocess.run(
        [*command, secure_broker.bootstrap_servers, "--command-config", str(file)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert unique in listed.stdout
