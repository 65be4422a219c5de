"""An application that logs in by SCRAM over TLS, through Spark: it reads, repartitions, counts, and restores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.integration.security.granting import everything
from tests.integration.spark.conftest import World
from tests.records import Record
from tests.secure_broker import SecureBroker

PASSWORD_VARIABLE = "TEST_KAFKA_PASSWORD"
PASSWORD = f"marker-{uuid4().hex}"


@pytest.fixture(scope="module")
def world(secure_broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(secure_broker.plain_servers, f"w{uuid4().hex[:8]}", tmp_path_factory.mktemp("applications"))
    made.create("events", "groups", partitions=2)
    yield made
    made.close()


@pytest.mark.timeout(900)
def test_it_works_and_restores_behind_a_login(secure_broker: SecureBroker, world: World) -> None:
    login = secure_broker.add_user("rekeyed", PASSWORD)
    secure_broker.grant(everything("rekeyed"))
    application = world.application(
        "rekeyed",
        config={
            **login,
            "sasl.password": f"${{{PASSWORD_VARIABLE}}}",
            "bootstrap.servers": secure_broker.bootstrap_servers,
            "repartition.purge.interval.ms": 500,
        },
        environment={PASSWORD_VARIABLE: PASSWORD},
    )
    application.start_and_wait()
    send(world, b"a", b"b")
    application.wait_until_caught_up()
    assert counts(world) == 2
    assert application.stop() == 0
    shutil.rmtree(application.state_directory)
    application.start_and_wait()
    send(world, b"c")
    application.wait_until_caught_up()
    assert counts(world) == 3
    assert application.metric("millrace_stream_task_restore_records_total") > 0
    assert application.stop() == 0


def send(world: World, *keys: bytes) -> None:
    world.send("events", *(Record(key, b'{"group":"x"}', 1_000, partition=0) for key in keys))


def counts(world: World) -> int:
    last = world.read("groups")[-1].value
    return int.from_bytes(last or b"", "big")
