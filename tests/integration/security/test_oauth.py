"""Clients log in with OAuth: OIDC client credentials, a token from an identity provider (KIP-768)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import uuid4

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.errors import PreflightError
from millrace.install.connection import Connection
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.log_dirs import log_bytes
from millrace.kafka.offsets import end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.kafka.transactions import list_transactions
from millrace.state.changelog_reader import BrokerChangelogReader
from tests.integration.security.granting import everything
from tests.integration.spark.conftest import World
from tests.records import Record
from tests.secure_broker import SecureBroker
from tests.waiting import eventually

SECRET = 'with "quotes" and \\'


@pytest.fixture(scope="module")
def login(secure_broker: SecureBroker) -> dict[str, str]:
    """The login of a client that may do everything."""
    secure_broker.grant(everything("robot"))
    return secure_broker.add_client("robot", SECRET)


@pytest.fixture
def known(login: dict[str, str]) -> dict[str, str]:
    """The same with the secret itself, which only a specification refers to."""
    return {**login, "sasl.oauthbearer.client.secret": SECRET}


def connection_of(broker: SecureBroker, login: Mapping[str, str]) -> Connection:
    named = {"application.id": "any", "bootstrap.servers": broker.oauth_servers}
    return Connection.of(StreamsConfig.from_mapping({**named, **login}))


def test_a_token_of_the_identity_provider_opens_every_client(
    secure_broker: SecureBroker, known: dict[str, str], unique: str
) -> None:
    """Case L01; the broker's own tools, asked last, are Java processes."""
    connection = connection_of(secure_broker, known)
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
    eventually(lambda: [value for columns in reader.read() for value in columns.values.to_pylist()], [b"v"])
    reader.close()
    # The marker of the commit is written a moment later.
    eventually(lambda: end_offsets(admin, [(unique, 0)]), {(unique, 0): 2})
    assert list_transactions(connection.bootstrap_servers, settings=admin.settings)[unique] == "CompleteCommit"
    assert log_bytes(connection.bootstrap_servers, [unique], settings=admin.settings)[unique, 0] > 0
    assert set(secure_broker.identity_provider.scopes) == {"streams"}


def test_a_wrong_secret_is_a_refusal_that_says_so_without_the_secret(
    secure_broker: SecureBroker, known: dict[str, str]
) -> None:
    wrong = {**known, "sasl.oauthbearer.client.secret": "not-it"}
    connection = connection_of(secure_broker, wrong)
    admin = KafkaAdmin(connection.bootstrap_servers, settings=connection.admin, timeout_s=5)
    with pytest.raises(PreflightError, match="invalid_client") as raised:
        admin.number_of_brokers()
    assert "not-it" not in str(raised.value)


@pytest.fixture
def world(secure_broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(secure_broker.plain_servers, f"o{uuid4().hex[:8]}", tmp_path_factory.mktemp("applications"))
    made.create("events", "groups", partitions=2)
    yield made
    made.close()


def test_an_application_runs_with_tokens(secure_broker: SecureBroker, login: dict[str, str], world: World) -> None:
    """Case L01: through Spark, whose Kafka source asks for tokens by itself."""
    application = world.application("rekeyed", config={**login, "bootstrap.servers": secure_broker.oauth_servers})
    application.start_and_wait()
    world.send("events", *(Record(key, b'{"group":"x"}', 1_000, partition=0) for key in (b"a", b"b")))
    application.wait_until_caught_up()
    assert world.read("groups") != []
    assert application.stop() == 0
