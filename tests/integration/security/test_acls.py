"""The ACLs of ``millrace acls`` let an application work and nothing of them can be left out: a broker decides."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace import supervise
from millrace.driver.status_topic import ensure_status_topic
from millrace.errors import PreflightError
from millrace.insight.acls import Purpose, needed_acls
from millrace.insight.export import TextFile, export_metrics
from millrace.insight.export.lag import records_behind
from millrace.install.application import Application
from millrace.install.connection import admin_of
from millrace.kafka.topics import TopicSpec
from millrace.operations.compaction import CompactionOptions, compact
from millrace.operations.dead_letters import (
    list_dead_letter_records,
    purge_dead_letter_records,
    replay_dead_letter_records,
)
from millrace.operations.reset import NamedCluster, ResetOptions, reset
from millrace.operations.savepoints import create_savepoint, restore_savepoint
from millrace.supervise import canary
from tests.application import PREFIX_VARIABLE
from tests.dead_letters import dead_letter_record_of
from tests.integration.savepoints.conftest import Installation
from tests.integration.security.granting import bindings, bindings_of
from tests.records import Record, produce, read_topic
from tests.secure_broker import SecureBroker

PASSWORD = "a marker of a password"


class Behind:
    """An application whose user may do what ``millrace acls`` says, and nothing else.

    Args:
        broker: the broker, which allows nothing else.
        installation: where the application is.
        purpose: what the ACLs are for.
    """

    def __init__(self, broker: SecureBroker, installation: Installation, purpose: Purpose | None) -> None:
        self.broker = broker
        self.installation = installation
        self.user = f"{installation.prefix}-user"
        self.dead_letters = f"{installation.prefix}-letters"
        installation.admin.create_missing([TopicSpec(name=self.dead_letters)])
        self.login = broker.add_user(self.user, PASSWORD)
        config: dict[str, Any] = {
            **self.login,
            "bootstrap.servers": broker.bootstrap_servers,
            "errors.dead.letter.queue.topic.name": self.dead_letters,
        }
        self.name = installation.specify(**config)
        self.needed = needed_acls(Application(installation.home, self.name).desired.spec, purpose=purpose)
        broker.grant(bindings(self.needed))

    def run(self) -> None:
        """From its changelogs, as on another host."""
        shutil.rmtree(self.installation.home.root / "state", ignore_errors=True)
        self.installation.run(self.name)


@pytest.fixture
def behind(secure_broker: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Behind]:
    """``behind(purpose)`` makes one."""

    def make(purpose: Purpose | None) -> Behind:
        installation = Installation(secure_broker.plain_servers, tmp_path / "installation", partitions=1)
        monkeypatch.setenv(PREFIX_VARIABLE, installation.prefix)
        return Behind(secure_broker, installation, purpose)

    return make


def test_an_application_runs_with_them_and_asks_for_nothing_else(behind: Callable[..., Behind]) -> None:
    application = behind(Purpose.RUN)
    application.installation.send(100)
    application.run()
    application.installation.check_outputs()
    assert application.broker.denials(application.user) == []
    application.installation.send(100)
    for acl in application.needed.acls:
        granted = bindings_of(acl, application.needed.principal)
        application.broker.revoke(granted)
        with pytest.raises(PreflightError, match="uthorization failed") as raised:
            application.run()
        assert "grant the permission" in raised.value.remedy, acl
        application.broker.grant(granted)
    application.run()
    application.installation.check_outputs()


def test_operations_do_with_them_and_ask_for_nothing_else(behind: Callable[..., Behind], tmp_path: Path) -> None:
    application = behind(None)
    home, name, installation = application.installation.home, application.name, application.installation
    config = Application(home, name).desired.spec.streams_config()
    installation.send(100)
    application.run()
    create_savepoint(Application(home, name), name="one")
    installation.send(100)
    application.run()
    restore_savepoint(Application(home, name), "one")
    application.run()
    installation.check_outputs()
    topic_partitions = [(installation.input, 0)]
    assert records_behind(admin_of(config), config, topic_partitions) == {topic_partitions[0]: 0}
    assert list_dead_letter_records(Application(home, name)) == []
    produce(installation.bootstrap_servers, application.dead_letters, [Record(b"k", b"v")])
    reset(Application(home, name), options=ResetOptions(empties_dead_letters=True))
    application.run()
    installation.check_outputs()
    # As somebody does who has the name and a login only.
    home.spec_path(name).unlink()
    login = tmp_path / "login.properties"
    login.write_text("".join(f"{key}={value}\n" for key, value in application.login.items()))
    cluster = NamedCluster(bootstrap_servers=application.broker.bootstrap_servers, command_config=login)
    assert reset(Application(home, name), cluster=cluster).results["check"]["checks"]
    assert application.broker.denials(application.user) == []
    written = [path for path in home.root.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert written == []


def test_maintenance_does_with_them_and_asks_for_nothing_else(behind: Callable[..., Behind]) -> None:
    application = behind(None)
    home, name, installation = application.installation.home, application.name, application.installation
    installation.send(100)
    application.run()
    produce(
        installation.bootstrap_servers,
        application.dead_letters,
        [dead_letter_record_of(installation.input, 0, b"k", ValueError())],
    )
    assert replay_dead_letter_records(Application(home, name)).results["send"]["sent"] == {installation.input: 1}
    assert len(read_topic(installation.bootstrap_servers, installation.input)) == 101
    purge_dead_letter_records(Application(home, name))
    assert list_dead_letter_records(Application(home, name)) == []

    # This broker's cleaner never runs: what compaction asks of it is all there is to be seen.
    changelogs = [f"{name}-{store}-changelog" for store in ("by-key", "by-bucket")]
    before = [installation.admin.own_topic_settings(topic) for topic in changelogs]
    options = CompactionOptions(least_bytes=1, least_superfluous=0.0, budget_s=2.0)
    cleaner = compact(Application(home, name), options, reason="a test").results["wait-for-cleaner"]
    assert {topic.rpartition("-")[0] for topic in cleaner["waiting"]} >= set(changelogs)
    assert [installation.admin.own_topic_settings(topic) for topic in changelogs] == before
    assert application.broker.denials(application.user) == []


def test_a_canary_and_the_export_do_with_them_and_ask_for_nothing_else(
    behind: Callable[..., Behind], tmp_path: Path
) -> None:
    application = behind(None)
    home, name, installation = application.installation.home, application.name, application.installation
    # Where there is none yet, the first start asks the broker's own topic, which is refused, and goes on.
    ensure_status_topic(installation.bootstrap_servers)
    installation.send(100)
    supervise.deploy(Application(home, name))
    try:
        supervise.wait_until_ready(Application(home, name))
        candidate = tmp_path / "new.yaml"
        shutil.copy(home.spec_path(name), candidate)
        canary.start(Application(home, name), candidate)
        supervise.wait_until_ready(Application(home, f"{name}-canary"))
        installation.send(100)
        found = canary.compare(Application(home, name), wait_s=120)
        assert (found.agrees, found.at_rest, found.keys > 50) == (True, True, True), found
        report = export_metrics(home, [TextFile(tmp_path / "millrace.prom")])
        assert report.problems == ()
        assert {each.application for each in report.applications} == {name, f"{name}-canary"}
        canary.drop(Application(home, name))
    finally:
        installation.close()
    # Of a list of transactions the broker keeps back those of others, and logs each.
    others = f"^((?!{installation.prefix}-app).)*request = ListTransactions"
    assert [line for line in application.broker.denials(application.user) if not re.search(others, line)] == []
