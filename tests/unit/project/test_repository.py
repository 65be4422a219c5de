"""What those who come after find: `make help`, lanes of the suite, templates, owners."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.suite import parts
from tests.unit.project.pages import ROOT

GITHUB = ROOT / ".github"
TEAM = "@millrace/maintainers"


def loaded(path: Path) -> Any:
    # YAML 1.1 takes the key `on` for true.
    return yaml.safe_load(path.read_text().replace("\non:", "\n'on':"))


def lanes(workflow: str) -> list[str]:
    """The parts that a workflow runs, each lane's in its order."""
    return [
        part
        for lane in loaded(GITHUB / "workflows" / workflow)["jobs"]["lane"]["strategy"]["matrix"]["parts"]
        for part in lane.split()
    ]


def test_each_part_of_the_suite_is_in_one_lane() -> None:
    always = [part.name for part in parts() if not part.reason]
    assert sorted(lanes("tests.yml")) == sorted(always)
    assert sorted(lanes("nightly.yml")) == sorted(part.name for part in parts() if part.reason)


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").iterdir()), ids=lambda path: path.name)
def test_a_workflow_may_write_nothing_has_a_limit_and_runs_what_a_machine_of_ones_own_does(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 300
        assert [step["run"] for step in job["steps"] if "run" in step] == ["sh .ci/run ${{ matrix.parts }}"]
        # Debian 12 is what the tests know, and Python one that the project supports.
        assert job["container"]["image"] == "python:3.11-bookworm"


@pytest.mark.parametrize("arguments", [[], ["check", "unit"]])
def test_the_lanes_command_tests_all_or_the_parts_that_it_is_given(tmp_path: Path, arguments: list[str]) -> None:
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/asked\n')
    make.chmod(0o755)
    for tool in ("apt-get", "java"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(ROOT / ".ci" / "run"), *arguments], env=environment, check=True, timeout=60)
    assert (tmp_path / "asked").read_text() == f"test|PARTS={' '.join(arguments)}|"


def test_help_tells_every_target_once_and_what_it_is_for() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert sorted(phony.split()) == sorted(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    told = re.findall(r"^  make (\w+) +\S.{10,}$", done.stdout, re.MULTILINE)
    assert sorted(told) == sorted(set(phony.split()) - {"help"})
    # Every option has a place too.
    for option in re.findall(r"^(\w+) \?=", makefile, re.MULTILINE):
        assert re.search(rf"\b{option}(=|\b)", done.stdout), option
    assert max(map(len, done.stdout.splitlines())) <= 130


@pytest.mark.parametrize("name", ["fault.yml", "proposal.yml"])
def test_an_issue_form_asks_for_what_is_needed(name: str) -> None:
    form = loaded(GITHUB / "ISSUE_TEMPLATE" / name)
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    for field in form["body"]:
        assert field["type"] in {"textarea", "input", "checkboxes"}
        assert field["attributes"]["label"]
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_vulnerabilities_are_kept_out_of_issues() -> None:
    config = loaded(GITHUB / "ISSUE_TEMPLATE" / "config.yml")
    assert config["blank_issues_enabled"] is False
    assert any("SECURITY.md" in link["about"] for link in config["contact_links"])


def test_everything_has_an_owner_and_what_is_named_is_there() -> None:
    lines = [line.split() for line in (GITHUB / "CODEOWNERS").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == ["*", TEAM]
    for pattern, *owners in lines[1:]:
        assert (ROOT / pattern.strip("/")).exists(), pattern
        assert owners == [TEAM]


def test_the_pull_request_names_commands_that_there_are() -> None:
    text = (GITHUB / "pull_request_template.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)", text):
        assert f"\n{target}:" in makefile
