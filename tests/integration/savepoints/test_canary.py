"""A canary beside a running application: the same input, outputs of its own, compared and dropped without a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from millrace import supervise
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.operations.savepoints import list_savepoints
from millrace.supervise import canary
from millrace.supervise.canary.clone import clone_of
from tests.integration.savepoints.conftest import OUTPUTS, Installation


def topics_of(world: Installation, prefix: str) -> set[str]:
    return {name for name in world.admin.client.list_topics(timeout=30).topics if name.startswith(prefix)}


@pytest.mark.long("a canary beside its original on drivers; test_canary_without_spark.py does it on tasks")
def test_a_canary_shows_where_the_new_version_differs_and_leaves_nothing_behind(
    make_installation: Callable[..., Installation], tmp_path: Path
) -> None:
    world = make_installation()
    name = world.specify()
    clone = clone_of(name)
    world.send(300)
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    world.wait_until_caught_up(name)
    document = yaml.safe_load(world.home.spec_path(name).read_text())
    candidate = tmp_path / "new.yaml"
    candidate.write_text(
        yaml.safe_dump({**document, "module": "tests.integration.savepoints.topologies:counting_differently"})
    )
    with pytest.raises(OperationError, match="has no canary"):
        canary.compare(Application(world.home, name))

    plan = canary.start(Application(world.home, name), candidate, dry_run=True)
    assert any(f"{clone}-{world.prefix}-by-key" in step for step in plan.steps)
    assert not world.home.spec_path(clone).exists()
    canary.start(Application(world.home, name), candidate)
    supervise.wait_until_ready(Application(world.home, clone))
    world.send(200)
    found = canary.compare(Application(world.home, name), wait_s=120)
    assert found.at_rest
    assert {each.topic for each in found.differences} == {f"{world.prefix}-by-bucket"}
    assert found.keys > len(found.differences) > 0
    assert canary.promote(Application(world.home, name), dry_run=True).action == "promote"

    before = topics_of(world, world.prefix)
    canary.drop(Application(world.home, name))
    assert before - topics_of(world, world.prefix) == topics_of_clone(before, clone)
    assert not topics_of(world, clone)
    assert not world.home.spec_path(clone).exists()
    assert clone not in world.home.deployed()
    assert list_savepoints(Application(world.home, name)) == []
    assert not (world.home.root / "state" / clone).exists()
    world.send(100)
    world.wait_until_caught_up(name)
    for output in OUTPUTS:
        assert world.last_counts(output) == world.expected(output), output


def topics_of_clone(names: set[str], clone: str) -> set[str]:
    found = {name for name in names if name.startswith(f"{clone}-")}
    assert len(found) > len(OUTPUTS), "outputs and internal topics"
    return found
