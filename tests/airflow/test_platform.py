"""`make platform` as its user runs it: what docker-compose.yml deploys, without containers, and a broker is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from demo.leftovers import processes_of
from millrace.install.application import Application
from millrace.kafka.clients import base_settings
from millrace.launch import observe
from tests.records import leader_of
from tests.waiting import PATIENCE, wait_for

from .demo_command import APPLICATION, DemoCommand

INPUT = "payments"


@pytest.mark.kills
@pytest.mark.alone
def test_the_platform_is_exactly_once_although_the_leader_of_its_input_is_killed(tmp_path: Path) -> None:
    command = DemoCommand(tmp_path, "platform", "--cluster", "--rate", "200")
    try:
        wait_for(lambda: command.said("ALERT"), limit_s=600)
        brokers = addresses_of(command)
        lost = leader_of(brokers, INPUT)
        driver = observe(Application(command.home, APPLICATION)).process
        kill_node(command.home.root, lost)
        wait_for(lambda: leader_of(brokers, INPUT) not in {lost, -1}, limit_s=90)
        in_sync = AdminClient(base_settings(brokers)).list_topics(INPUT, timeout=30).topics[INPUT].partitions[0].isrs
        assert set(in_sync) == {1, 2, 3} - {lost}
        seen = command.times("ALERT")
        wait_for(lambda: command.times("ALERT") > seen, limit_s=240)
        log = command.home.application(APPLICATION).log.read_text()
        why = f"its driver goes on with the brokers that are left, but:\n{log[-6_000:]}"
        assert observe(Application(command.home, APPLICATION)).process == driver, why
        # Both workers have an executor of the application.
        assert {path.parents[1].name for path in command.home.root.glob("spark/worker-*/app-*/*")} == {
            "worker-0",
            "worker-1",
        }
        command.interrupt()
        code = command.exit_code(400)
    finally:
        command.end()
    printed = "\n".join(command.lines)
    assert code == 0, printed
    assert "EXACTLY ONCE" in printed
    assert "no process is left" in printed
    assert processes_of(command.home.root) == []
    assert not (command.home.root / "airflow" / "airflow.db").exists(), "Airflow's tables are in PostgreSQL"


def addresses_of(command: DemoCommand) -> str:
    (addresses,) = [line.split()[1] for line in command.lines if line.startswith("Kafka  ")]
    assert addresses.count(",") == 2
    return addresses


def command_line(pid: int) -> list[str]:
    """Program and arguments of a process; none where it has ended meanwhile."""
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


def kill_node(home: Path, number: int) -> None:
    configuration = str(home / "brokers" / f"node-{number}" / "server.properties")
    (node,) = [each for each in processes_of(home) if configuration in command_line(each.pid)]
    node.send_signal(signal.SIGKILL)
    assert node.wait_until_gone(10 * PATIENCE)
