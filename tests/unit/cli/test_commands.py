"""The command line without a broker: help, errors, exit codes, and the commands that need none."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import typer

from millrace.cli.application import app
from millrace.install.home import Home
from millrace.install.launchers.base import OPERATION_VARIABLE
from millrace.operations import OperationPlan
from millrace.operations.journal import OperationJournal
from tests.unit.cli.conftest import Cli

SPEC = """\
name: payments-counter
module: apps.fraud_detection:build
config: {bootstrap.servers: "localhost:1"}
"""


def command_lines() -> list[list[str]]:
    """Every command, as its words."""
    found: list[list[str]] = [[]]
    waiting: list[tuple[list[str], Any]] = [([], typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop()
        for name, child in getattr(command, "commands", {}).items():
            found.append([*words, name])
            waiting.append(([*words, name], child))
    return sorted(found)


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_every_help_shows_an_example(cli: Cli, words: list[str]) -> None:
    result = cli(*words, "--help")
    assert result.code == 0
    assert "Example: millrace " + " ".join(words) in " ".join(result.out.split())


def test_the_commands_are_there() -> None:
    names = {words[0] for words in command_lines() if words}
    assert names == {
        "acls",
        "audit",
        "broker",
        "canary",
        "compact",
        "deploy",
        "dlq",
        "export-metrics",
        "init",
        "manifests",
        "operations",
        "plan",
        "prepare",
        "query",
        "query-server",
        "recovery-drill",
        "reset",
        "rollback",
        "run",
        "savepoint",
        "standby",
        "status",
        "stop",
        "take-over",
        "topics",
        "topology",
    }


def test_an_error_is_one_line_with_the_remedy(cli: Cli) -> None:
    result = cli("topics", "list")
    assert result.code == 1
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: No broker was named")
    assert "Remedy: give --bootstrap-servers" in result.err


def test_a_traceback_comes_only_with_verbose(cli: Cli) -> None:
    assert "Traceback" not in cli("topology", "apps.nowhere:build").err
    assert "Traceback" in cli("topology", "apps.nowhere:build", verbose=True).err


def test_verbose_may_stand_anywhere_in_the_line() -> None:
    command = [sys.executable, "-m", "millrace", "topology", "apps.nowhere:build", "--verbose"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_a_wrong_command_line_exits_with_2(cli: Cli) -> None:
    assert cli("topics", "create").code == 2
    assert cli("no-such-command").code == 2


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from millrace.cli.application import run\n"
        "assert run(['--help'], verbose=False) == 0\n"
        "heavy = {'pyspark', 'pyarrow', 'airflow', 'confluent_kafka', 'numpy', 'structlog'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_topology_prints_the_description_and_writes_a_picture(cli: Cli, tmp_path: Path) -> None:
    picture = tmp_path / "topology.svg"
    result = cli("topology", "apps.fraud_detection:build", "--svg", str(picture))
    assert result.code == 0
    assert "Processor: spent-per-window (stores: [spent-per-window])" in result.out
    texts = {element.text for element in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {"payments", "fraud-alerts", "spent-per-window", "crossing"} <= texts


def test_topology_takes_a_name_and_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "apps" / "payments-counter.yaml"
    file.write_text(SPEC)
    assert cli("topology", "payments-counter").out == cli("topology", str(file)).out != ""


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("apps.nowhere:build", "cannot be imported"),
        ("apps.fraud_detection:biuld", "it has build"),
        ("tests.unit.cli.broken_application:build_nothing", "topology"),
        ("tests.unit.cli.broken_application:build_failing", "KeyError"),
    ],
)
def test_a_module_without_a_topology_is_named(cli: Cli, tmp_path: Path, module: str, message: str) -> None:
    file = tmp_path / "apps" / "broken.yaml"
    file.write_text(f"name: broken\nmodule: {module}\nconfig: {{bootstrap.servers: 'localhost:1'}}\n")
    for command in ("topology", "run"):
        result = cli(command, str(file))
        assert result.code == 1
        assert message in result.err
        assert "Traceback" not in result.err


def test_an_unknown_setting_is_refused_with_the_nearest_known_one(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(SPEC.replace("bootstrap.servers", "bootstrap.server"))
    result = cli("run", str(file))
    assert result.code == 1
    assert "'bootstrap.servers'" in result.err


def test_a_missing_specification_names_those_that_there_are(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "apps" / "payments-counter.yaml").write_text(SPEC)
    result = cli("run", "payments-conter")
    assert result.code == 1
    assert "payments-counter" in result.err


def test_status_shows_what_is_not_deployed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "apps" / "payments-counter.yaml").write_text(SPEC)
    result = cli("status", "--once")
    assert result.code == 0
    assert "payments-counter" in result.out
    assert "not deployed" in result.out
    [document] = json.loads(cli("status", "--json").out)
    assert (document["application"], document["verdict"]) == ("payments-counter", "not_deployed")


def test_status_of_an_unknown_application_names_the_known_ones(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "apps" / "payments-counter.yaml").write_text(SPEC)
    result = cli("status", "--once", "payment-counter")
    assert result.code == 1
    assert "payments-counter" in result.err


def test_stopping_what_was_never_deployed_is_an_error(cli: Cli) -> None:
    result = cli("stop", "payments-counter")
    assert result.code == 1
    assert "never deployed" in result.err


def test_a_broker_that_does_not_run_is_no_success(cli: Cli) -> None:
    assert cli("broker", "status").code == 1
    assert cli("broker", "stop").out == "it does not run\n"


def test_a_broker_that_does_not_answer_is_named(cli: Cli) -> None:
    result = cli("topics", "list", "--bootstrap-servers", "127.0.0.1:1")
    assert result.code == 1
    assert "127.0.0.1:1" in result.err
    assert "millrace broker start" in result.err


def test_a_malformed_topic_setting_is_a_wrong_command_line(cli: Cli) -> None:
    assert cli("topics", "create", "x", "--config", "retention.ms", "--bootstrap-servers", "127.0.0.1:1").code == 2


def test_run_refuses_an_application_that_an_operation_holds(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps" / "payments-counter.yaml").write_text(SPEC.replace("apps.fraud_detection", "apps.nowhere"))
    plan = OperationPlan(
        operation="reset", application="payments-counter", reason="a test", decisions={}, holds_application=True
    )
    OperationJournal(Home.at(home).application("payments-counter"), "20260101-reset").begin(plan)
    result = cli("run", "payments-counter", "--run-directory", str(tmp_path / "elsewhere"))
    assert result.code == 1
    assert "Cannot run payments-counter: reset 20260101-reset" in result.err
    assert "millrace operations resume payments-counter" in result.err
    monkeypatch.setenv(OPERATION_VARIABLE, "20260101-reset")
    assert "cannot be imported" in cli("run", "payments-counter").err, "the operation itself may start it"
