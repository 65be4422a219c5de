"""Specifications that are wrong: one hides no other, and every command refuses it in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.install.home import ApplicationDirectory
from millrace.install.record import DesiredState, JobRecord, write_record
from millrace.install.spec import load_spec_file
from tests.unit.cli.conftest import Cli

SPEC = 'name: {name}\nmodule: apps.fraud_detection:build\nconfig: {{bootstrap.servers: "localhost:1"}}\n'
MISNAMED = "describes 'orders', and a specification has the name of its file"
BY_NAME_OR_FILE = [
    ["run"],
    ["topology"],
    ["acls"],
    ["manifests"],
    ["plan", "--records-per-second", "1", "--record-bytes", "1", "--keys", "1"],
    ["take-over"],
    ["standby"],
    ["query-server"],
]
BY_NAME = [
    ["deploy"],
    ["audit"],
    ["compact"],
    ["recovery-drill"],
    ["reset"],
    ["dlq", "list"],
    ["savepoint", "create"],
    ["savepoint", "list"],
    ["status", "--recovery"],
]


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    apps = tmp_path / "apps"
    (apps / "payments.yaml").write_text(SPEC.format(name="payments"))
    return apps


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "content",
    ["description: Aufträge".encode("latin-1"), "name: orders".encode("utf-16"), b"", b"name: [", b"name: a\nname: b"],
)
def test_status_shows_the_others_and_what_is_wrong_with_the_one(cli: Cli, apps: Path, content: bytes) -> None:
    """Case A12."""
    (apps / "orders.yaml").write_bytes(content)
    result = cli("status", "--once")
    assert result.code == 0
    assert "payments" in result.out
    assert f"orders: note: {apps / 'orders.yaml'}" in result.out
    rows = {row["application"]: row for row in json.loads(cli("status", "--json").out)}
    assert set(rows) == {"orders", "payments"}
    assert str(apps / "orders.yaml") in rows["orders"]["note"]
    assert rows["payments"]["note"] == ""


def test_a_record_that_cannot_be_read_hides_no_other_application(cli: Cli, apps: Path, home: Path) -> None:
    record = home / "run" / "broken" / "record.json"
    record.mkdir(parents=True)
    result = cli("status", "--once")
    assert "payments" in result.out
    assert "broken: " in result.out
    assert "record.json cannot be read: Is a directory" in result.out


@pytest.mark.parametrize("words", [*BY_NAME_OR_FILE, *BY_NAME], ids=" ".join)
def test_a_specification_under_another_name_is_refused_by_every_command_in_the_same_words(
    cli: Cli, apps: Path, words: list[str]
) -> None:
    (apps / "payments.yaml").write_text(SPEC.format(name="orders"))
    targets = ["payments", str(apps / "payments.yaml")] if words in BY_NAME_OR_FILE else ["payments"]
    for target in targets:
        result = cli(*words, target)
        assert result.code == 1
        assert f"{apps / 'payments.yaml'} {MISNAMED}" in one_line(result.err)


def test_a_file_elsewhere_is_called_as_its_application_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "payments.yaml").write_text(SPEC.format(name="orders"))
    assert MISNAMED in one_line(cli("topology", str(tmp_path / "payments.yaml")).err)
    (tmp_path / "spec.yaml").write_text(SPEC.format(name="orders"))
    assert cli("topology", str(tmp_path / "spec.yaml")).code == 0, "the copy that a launch makes has this name"


def test_a_directory_of_an_application_s_name_is_not_taken_for_its_file(
    cli: Cli, apps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "payments").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli("topology", "payments").code == 0


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["audit", "payments"], "was_launched"),
        (["compact", "payments"], "was_launched"),
        (["standby", "payments"], "was_launched"),
        (["query-server", "payments"], "was_launched"),
        (["status", "--recovery", "payments"], "was_launched"),
        (["topology", "payments"], "is_edited"),
        (["take-over", "payments"], "is_edited"),
        (["savepoint", "restore", "payments", "s1"], "is_edited"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_concerns_what_runs_goes_by_what_was_launched_and_says_where_the_file_differs(
    cli: Cli, apps: Path, home: Path, words: list[str], module: str
) -> None:
    directory = ApplicationDirectory(home / "run" / "payments")
    path = apps / "payments.yaml"
    path.write_text(SPEC.format(name="payments").replace("fraud_detection", "was_launched"))
    launched = load_spec_file(path)
    launched.save(directory.spec)
    write_record(directory, JobRecord(application="payments", desired=DesiredState.STOPPED, spec_hash=launched.hash))
    path.write_text(SPEC.format(name="payments").replace("fraud_detection", "is_edited"))
    result = cli(*words)
    goes_by = "what was launched" if module == "was_launched" else "the file"
    # Neither module is there, so that each command ends with the name of the one that it looked for.
    assert result.code == 1
    assert f"The module 'apps.{module}' cannot be imported" in one_line(result.err)
    note = f"note: {path} differs from what payments was launched with (module): this goes by {goes_by}"
    assert one_line(result.err).count(note) == 1
    assert f"payments: note: {path} differs from what payments was launched with" in cli("status", "--once").out
