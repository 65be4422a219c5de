"""An application behind a login, through Spark: it may do what its ACLs say and nothing else, and its secrets are
nowhere that others may look.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from millrace.driver.control_file import CONTROL_TOKEN_VARIABLE
from millrace.driver.status_topic import ensure_status_topic
from millrace.insight.acls import Purpose, needed_acls
from millrace.install.spec import load_spec
from tests.application import PREFIX_VARIABLE, Application
from tests.integration.security.granting import bindings
from tests.integration.spark.conftest import World
from tests.records import Record
from tests.secure_broker import SecureBroker

PASSWORD, TOKEN, STORE_KEY = (f"marker-{uuid4().hex}" for _ in range(3))
SHOWN = ("", "health/live", "health/ready", "metrics", "status", "tasks", "topology", "topology.svg")


@pytest.fixture(scope="module")
def world(secure_broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(secure_broker.plain_servers, f"w{uuid4().hex[:8]}", tmp_path_factory.mktemp("applications"))
    made.create("events", "groups", partitions=2)
    # Where there is none yet, the first start asks the broker's own topic, which is refused, and goes on.
    ensure_status_topic(secure_broker.plain_servers)
    yield made
    made.close()


def test_it_works_and_restores_behind_a_login_and_keeps_its_secrets(
    secure_broker: SecureBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = world.name("user")
    application = world.application(
        "rekeyed",
        config={
            **secure_broker.add_user(user, PASSWORD),
            "bootstrap.servers": secure_broker.bootstrap_servers,
            "repartition.purge.interval.ms": 500,
            "spark.hadoop.fs.s3a.secret.key": "${STORE_KEY}",
        },
        environment={"STORE_KEY": STORE_KEY, CONTROL_TOKEN_VARIABLE: TOKEN},
    )
    monkeypatch.setenv("STORE_KEY", STORE_KEY)
    monkeypatch.setenv(PREFIX_VARIABLE, world.name("")[:-1])
    secure_broker.grant(bindings(needed_acls(load_spec(application.write_specification()), purpose=Purpose.RUN)))
    application.start_and_wait()
    send(world, b"a", b"b")
    application.wait_until_caught_up()
    assert count(world) == 2
    shown = [httpx.get(f"{application.control_address()}/{path}", timeout=30).text for path in SHOWN]
    command_lines = [" ".join(process.cmdline()) for process in application.session()]
    assert any("java" in line for line in command_lines)
    assert_no_secret_in(*shown, *command_lines)
    assert application.post("pause").status_code == 202, "the token of the environment opens the control plane"
    application.post("resume")
    assert application.stop() == 0

    shutil.rmtree(application.state_directory)
    application.start_and_wait()
    send(world, b"c")
    application.wait_until_caught_up()
    assert count(world) == 3
    assert application.metric("millrace_stream_task_restore_records_total") > 0
    assert application.stop() == 0
    assert secure_broker.denials(user) == []
    assert_no_secret_in(*texts_of(application))


def send(world: World, *keys: bytes) -> None:
    world.send("events", *(Record(key, b'{"group":"x"}', 1_000, partition=0) for key in keys))


def count(world: World) -> int:
    return int.from_bytes(world.read("groups")[-1].value or b"", "big")


def texts_of(application: Application) -> Iterator[str]:
    """Everything that was written: specification, run directory, state, checkpoints, logs; but the token's own file."""
    for path in application.directory.rglob("*"):
        if path.is_file() and path.name != "control.token":
            yield path.read_text(errors="replace")


def assert_no_secret_in(*texts: str) -> None:
    for text in texts:
        for secret in (PASSWORD, TOKEN, STORE_KEY):
            assert secret not in text, text[:500]
