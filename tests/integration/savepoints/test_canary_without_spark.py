"""Canaries of an application whose driver is the fake job, and whose tasks run in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace import operations, supervise
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import SPECS_VARIABLE
from millrace.install.spec import load_spec
from millrace.operations import resume, unfinished_operation
from millrace.operations.savepoints import list_savepoints
from millrace.operations.savepoints.location import target_of
from millrace.supervise import canary
from millrace.supervise.canary.clone import clone_of
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import ROOT, SEARCH_PATH
from tests.integration.savepoints.conftest import OUTPUTS, Installation
from tests.integration.savepoints.processing import process

FAKE_JOB = Path(__file__).resolve().parents[2] / "airflow" / "fake_job.py"


def work(world: Installation, name: str) -> None:
    """Processes what there is, as the application's specification says; its fake driver is stopped for it."""
    operations.stop(Application(world.home, name))
    target = target_of(load_spec(world.home.spec_path(name)))
    process(target.config, target.topology)


def topics_of(world: Installation, prefix: str) -> set[str]:
    return {name for name in world.admin.client.list_topics(timeout=30).topics if name.startswith(prefix)}


@pytest.fixture
def world(make_installation: Callable[..., Installation]) -> tuple[Installation, str]:
    """An application that has processed 300 records."""
    world = make_installation()
    name = world.specify()
    path = world.home.spec_path(name)
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    document["launcher"]["command"] = ["{python}", str(FAKE_JOB), "{run_directory}"]
    document["preflight"] = {"enabled": False}
    path.write_text(yaml.safe_dump(document))
    world.send(300)
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    work(world, name)
    return world, name


def candidate(world: Installation, name: str, directory: Path, module: str) -> Path:
    """A file with the specification of a new version."""
    document = yaml.safe_load(world.home.spec_path(name).read_text())
    path = directory / "new.yaml"
    path.write_text(yaml.safe_dump({**document, "module": f"tests.integration.savepoints.topologies:{module}"}))
    return path


def test_a_canary_shows_where_the_new_version_differs_and_leaves_nothing_behind(
    world: tuple[Installation, str], tmp_path: Path
) -> None:
    installation, name = world
    home, clone = installation.home, clone_of(name)
    new = candidate(installation, name, tmp_path, "counting_differently")
    with pytest.raises(OperationError, match="has no canary"):
        canary.compare(Application(home, name))
    before = topics_of(installation, installation.prefix)
    canary.start(Application(home, name), new)
    with pytest.raises(OperationError, match="has a canary already"):
        canary.start(Application(home, name), new)
    installation.send(200)
    late = canary.compare(Application(home, name), wait_s=0)
    assert not late.at_rest
    work(installation, name)
    work(installation, clone)
    for every_record in (False, True):
        found = canary.compare(Application(home, name), every_record=every_record, wait_s=30)
        assert found.at_rest
        assert {each.topic for each in found.differences} == {f"{installation.prefix}-by-bucket"}
        assert len({each.key for each in found.differences}) == 7 < found.keys, "each bucket, and nothing else"
    canary.drop(Application(home, name))
    assert topics_of(installation, installation.prefix) == before
    assert not home.spec_path(clone).exists()
    assert clone not in home.deployed()
    assert list_savepoints(Application(home, name)) == []
    assert not (home.root / "state" / clone).exists()
    installation.send(100)
    work(installation, name)
    for output in OUTPUTS:
        assert installation.last_counts(output) == installation.expected(output), output


def test_a_canary_of_the_same_version_agrees_and_is_promoted(world: tuple[Installation, str], tmp_path: Path) -> None:
    installation, name = world
    home, clone = installation.home, clone_of(name)
    new = candidate(installation, name, tmp_path, "counting_with_one_more")
    # The new version reads a topic that the old one only writes.
    canary.start(Application(home, name), new, starts=[f"{installation.prefix}-by-key=earliest"])
    installation.send(200)
    work(installation, name)
    work(installation, clone)
    found = canary.compare(Application(home, name), wait_s=30)
    assert found.agrees, found.differences
    assert canary.promote(Application(home, name)).action in {"start", "upgrade"}
    assert load_spec(home.spec_path(name)).module.endswith(":counting_with_one_more")
    supervise.wait_until_ready(Application(home, name))
    canary.drop(Application(home, name))


@pytest.mark.kills
@pytest.mark.parametrize("point", ["canary-start-savepoint-ends", "canary-start-restore-purge-ends"])
def test_a_canary_whose_start_was_killed_is_carried_on(
    world: tuple[Installation, str], tmp_path: Path, point: str
) -> None:
    installation, name = world
    home, clone = installation.home, clone_of(name)
    new = candidate(installation, name, tmp_path, "counting")
    points = tmp_path / "points"
    points.mkdir()
    (points / point).write_text("")
    process_ = subprocess.run(
        [sys.executable, "-m", "millrace", "canary", "start", name, "--spec", str(new), "--no-wait"],
        cwd=ROOT,
        env={
            **os.environ,
            DIRECTORY_VARIABLE: str(points),
            SPECS_VARIABLE: str(home.specs),
            "MILLRACE_HOME": str(home.root),
            "PYTHONPATH": SEARCH_PATH,
        },
        capture_output=True,
        check=False,
    )
    assert process_.returncode == -signal.SIGKILL, process_.stderr.decode()
    assert unfinished_operation(home.application(clone)) is not None
    resume(Application(home, clone))
    installation.send(100)
    work(installation, name)
    work(installation, clone)
    assert canary.compare(Application(home, name), wait_s=30).agrees
    canary.drop(Application(home, name))
