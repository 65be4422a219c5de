"""Deployments of the same specification with other code; the fake job stands in for the driver."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.dsl.loading import load_topology
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import JobRecord, read_record
from millrace.install.spec import UpgradeMode, load_spec_file
from millrace.launch import observe
from millrace.launch.launched_code import LaunchedCode, changes_of_code, keep_nodes, kept_code
from millrace.supervise import deploy, reconcile, wait_until_ready
from millrace.supervise.readiness import is_proven
from millrace.supervise.upgrade import plan_upgrade
from tests.installed import FAKE_JOB

WriteSpec = Callable[..., Path]
NAME = "payments"
MODULE = """
from millrace.dsl import Consumed, StreamsBuilder
from millrace.dsl import aggregators as agg
from millrace.serdes import LongSerde, StringSerde
from shop_rules import keep

def build(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))
    stream.filter(keep, named="kept").group_by_key().aggregate(agg.{aggregator}(), named="total")
"""
RULES = "def keep(key, value):\n    return value > {limit}\n"


def write_code(directory: Path, *, aggregator: str = "avg", limit: int = 1) -> None:
    (directory / "shop_totals.py").write_text(MODULE.format(aggregator=aggregator))
    (directory / "shop_rules.py").write_text(RULES.format(limit=limit))


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the code of an application, and the lock file of its environment."""
    directory = tmp_path / "code"
    directory.mkdir()
    write_code(directory)
    (directory / "uv.lock").write_text("version = 1\n")
    monkeypatch.syspath_prepend(directory)
    return directory


@pytest.fixture
def specify(write_spec: WriteSpec, code: Path) -> WriteSpec:
    def write(**changes: Any) -> Path:
        launcher = {
            "command": ["{python}", str(FAKE_JOB), "{run_directory}"],
            "environment": {"PYTHONPATH": str(code)},
        }
        return write_spec(module="shop_totals:build", launcher=launcher, **changes)

    return write


@pytest.fixture
def running(home: Home, specify: WriteSpec) -> Home:
    specify()
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    # As `millrace run` does.
    config = StreamsConfig.from_mapping({"application.id": NAME, "bootstrap.servers": "localhost:1"})
    keep_nodes(home.application(NAME).nodes, load_topology("shop_totals:build", config))
    return home


def pid_of(home: Home) -> int:
    record = read_record(home.application(NAME))
    assert record is not None
    assert record.process is not None
    return record.process.pid


def code_of(home: Home) -> LaunchedCode:
    code = kept_code(home.application(NAME))
    assert code is not None
    return code


def test_the_same_code_is_not_deployed_again_unless_it_is_forced(running: Home) -> None:
    before = pid_of(running)
    outcome = deploy(Application(running, NAME))
    assert (outcome.action, outcome.text) == ("nothing", "it runs already with this specification and this code")
    assert pid_of(running) == before
    assert observe(Application(running, NAME)).note == ""
    assert deploy(Application(running, NAME), force=True, dry_run=True).action == "upgrade"
    assert deploy(Application(running, NAME), force=True).action == "upgrade"
    assert pid_of(running) != before


def test_changed_code_is_deployed_and_its_nodes_and_files_are_named(running: Home, code: Path) -> None:
    before, fingerprint = pid_of(running), code_of(running).fingerprint
    write_code(code, aggregator="max_")
    plan = deploy(Application(running, NAME), dry_run=True)
    assert plan.action == "upgrade"
    assert pid_of(running) == before
    outcome = deploy(Application(running, NAME))
    assert outcome.action == "upgrade"
    for steps in (plan.steps, outcome.steps):
        differs = [step for step in steps if step.startswith("differs: ")]
        # The store's own serde follows the aggregator.
        assert "differs: node total does something else" in differs
        assert not [step for step in differs if "node kept" in step]
        assert f"differs: file {code}/shop_totals.py changed" in differs
        assert not [step for step in differs if "shop_rules" in step]
    assert pid_of(running) != before
    assert code_of(running).fingerprint != fingerprint
    wait_until_ready(Application(running, NAME), timeout_s=240)
    assert deploy(Application(running, NAME)).action == "nothing"


def test_a_changed_import_and_a_changed_lock_file_are_changes_too(running: Home, code: Path) -> None:
    write_code(code, limit=2)
    (code / "uv.lock").write_text("version = 2\n")
    steps = deploy(Application(running, NAME), dry_run=True).steps
    assert "differs: node kept does something else" in steps
    assert f"differs: file {code}/shop_rules.py changed" in steps
    assert f"differs: lock file {code}/uv.lock changed" in steps


def test_a_comment_changes_a_file_and_no_node(running: Home, code: Path) -> None:
    (code / "shop_rules.py").write_text("# why\n" + RULES.format(limit=1))
    outcome = deploy(Application(running, NAME))
    assert outcome.action == "upgrade"
    assert "differs: no node: each does what it did" in outcome.steps


def test_code_that_cannot_be_built_says_why_nodes_are_not_known(running: Home, code: Path) -> None:
    (code / "shop_rules.py").write_text("def keep(")
    steps = deploy(Application(running, NAME), dry_run=True).steps
    (line,) = [step for step in steps if "which nodes differ is not known" in step]
    assert "SyntaxError" in line


def test_supervision_leaves_changed_code_alone_and_says_so(running: Home, code: Path) -> None:
    before = pid_of(running)
    write_code(code, limit=2)
    note = f"the code of payments has changed since its launch ({code}/shop_rules.py); only a deployment goes to it"
    assert note in observe(Application(running, NAME)).note
    outcome = reconcile(Application(running, NAME))
    assert outcome.action == "nothing"
    assert note in outcome.text
    assert pid_of(running) == before


def test_a_restart_takes_changed_code_up_and_says_so(running: Home, code: Path) -> None:
    write_code(code, limit=2)
    record = read_record(running.application(NAME))
    assert record is not None
    assert record.process is not None
    record.process.send_signal(signal.SIGKILL)
    record.process.wait_until_gone(10)
    outcome = reconcile(Application(running, NAME))
    assert outcome.action == "restart"
    assert "what is started now is the code as it is now" in outcome.text
    wait_until_ready(Application(running, NAME), timeout_s=240)
    assert observe(Application(running, NAME)).note == ""
    assert deploy(Application(running, NAME)).action == "nothing"


def test_a_changed_specification_brings_changed_code_along_and_names_both(
    running: Home, specify: WriteSpec, code: Path
) -> None:
    specify(description="another one")
    write_code(code, limit=2)
    steps = deploy(Application(running, NAME)).steps
    assert "differs: description of the specification" in steps
    assert f"differs: file {code}/shop_rules.py changed" in steps


def test_what_an_earlier_version_launched_is_not_known(running: Home, code: Path) -> None:
    running.application(NAME).code.unlink()
    write_code(code, limit=2)
    outcome = deploy(Application(running, NAME))
    assert outcome.action == "nothing"
    assert "with which code is not known" in outcome.text
    assert "--force" in outcome.text


def test_what_a_launch_wrote_and_cannot_be_understood_is_named(running: Home) -> None:
    running.application(NAME).code.write_text("{}")
    with pytest.raises(OperationError, match=r"code\.json is not what a launch wrote"):
        deploy(Application(running, NAME))
    assert "code.json is not what a launch wrote" in observe(Application(running, NAME)).note
    assert is_proven(observe(Application(running, NAME)))


def test_changed_code_goes_the_way_of_the_upgrade_mode(running: Home) -> None:
    spec = load_spec_file(running.spec_path(NAME))
    record = read_record(running.application(NAME))
    assert isinstance(record, JobRecord)

    def plan(*, mode: UpgradeMode, is_same_changed: bool) -> object:
        return plan_upgrade(
            Application(running, NAME),
            record,
            spec,
            mode=mode,
            rolls_back=True,
            owner="",
            is_same_changed=is_same_changed,
        )

    assert plan(mode=UpgradeMode.STATELESS, is_same_changed=False) is None
    assert plan(mode=UpgradeMode.STATELESS, is_same_changed=True) is not None
    assert plan(mode=UpgradeMode.LAST_STATE, is_same_changed=True) is None, "there is no other code to go back to"


def test_packages_and_the_interpreter_are_compared() -> None:
    before = LaunchedCode(sources={}, locks={}, packages={"a": "1", "b": "1"}, python="3.11.7")
    after = LaunchedCode(sources={}, locks={}, packages={"b": "2", "c": "1"}, python="3.12.0")
    assert changes_of_code(before, after) == (
        "package b 1 becomes 2",
        "package c 1 is new",
        "package a 1 is gone",
        "Python 3.11.7 becomes 3.12.0",
    )
    assert changes_of_code(after, after) == ()
    assert before.fingerprint != after.fingerprint
