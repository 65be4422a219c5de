"""Upgrades of a running application that keep, give back and give up its state."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import orjson
import pytest
import yaml

from millrace import operations, supervise
from millrace.errors import OperationError, PreflightError
from millrace.install.application import Application
from millrace.install.record import read_record
from millrace.install.spec import load_spec_file
from millrace.kafka.topics import TopicSpec
from millrace.operations.savepoints import SavepointState, list_savepoints
from tests.integration.savepoints.conftest import OUTPUTS, Installation
from tests.records import Record, produce


def change(world: Installation, name: str, **changes: object) -> str:
    """Changes keys of the specification; its hash."""
    path = world.home.spec_path(name)
    document = yaml.safe_load(path.read_text())
    module = changes.pop("module", None)
    if module is not None:
        document["module"] = f"tests.integration.savepoints.topologies:{module}"
    path.write_text(yaml.safe_dump({**document, **changes}))
    return load_spec_file(path).hash


@pytest.mark.long(
    "a failing upgrade goes back through its savepoint on drivers; test_upgrade_without_spark.py does it on tasks"
)
def test_an_upgrade_that_fails_gives_the_savepoint_back_and_one_without_state_goes_on_where_the_input_was(
    make_installation: Callable[..., Installation],
) -> None:
    world = make_installation()
    name = world.specify()
    more = f"{world.prefix}-more"
    world.admin.create_missing([TopicSpec(name=more, partitions=2)])
    world.send(300)
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    world.wait_until_caught_up(name)
    good = load_spec_file(world.home.spec_path(name)).hash
    try:
        _a_failed_upgrade_is_rolled_back(world, name, more, good)
        _a_stateless_upgrade_keeps_the_offsets(world, name)
        _a_drill_measures_the_recovery(world, name)
    finally:
        operations.stop(Application(world.home, name))
        world.admin.delete_topics([more])


def _a_failed_upgrade_is_rolled_back(world: Installation, name: str, more: str, good: str) -> None:
    """The new version writes another store, which the old one does not know: so the savepoint is restored."""

    def send_behind_the_savepoint(line: str) -> None:
        if line.startswith("Stop what runs"):
            world.send(100)
            produce(world.bootstrap_servers, more, [Record(b"key", b"value", 1_000_000)])

    rejected = change(world, name, module="counting_more_and_failing", upgrade_mode="savepoint")
    outcome = supervise.deploy(
        Application(world.home, name), rollback_on_failure=True, progress=send_behind_the_savepoint
    )
    assert outcome.action == "rolled_back", outcome.text
    (savepoint,) = list_savepoints(Application(world.home, name))
    assert savepoint.state is SavepointState.COMPLETED
    assert f"on savepoint {savepoint.name}" in outcome.text
    record = read_record(world.home.application(name))
    assert record is not None
    assert (record.spec_hash, record.rejected_hash) == (good, rejected)
    assert supervise.reconcile(Application(world.home, name)).action == "nothing"
    world.send(100)
    world.wait_until_caught_up(name)
    for output in OUTPUTS:
        assert world.last_counts(output) == world.expected(output), output


def _a_stateless_upgrade_keeps_the_offsets(world: Installation, name: str) -> None:
    """The window store is gone, which needs `stateless`; counts begin again, and count only what comes from now on."""
    change(world, name, module="counting_without_windows", upgrade_mode="last-state")
    with pytest.raises(PreflightError, match="would not be used any more"):
        supervise.deploy(Application(world.home, name))
    change(world, name, module="counting_without_windows", upgrade_mode="stateless")
    assert any(
        "Delete its changelogs" in step for step in supervise.deploy(Application(world.home, name), dry_run=True).steps
    )
    before = len(world.sent)
    outcome = supervise.deploy(Application(world.home, name))
    assert outcome.action == "upgrade", outcome.text
    supervise.wait_until_ready(Application(world.home, name))
    world.send(200)
    world.wait_until_caught_up(name)
    since = dict(Counter(record.key for record in world.sent[before:]))
    assert world.last_counts("by-key") == since


def _a_drill_measures_the_recovery(world: Installation, name: str) -> None:
    with pytest.raises(OperationError, match="is for production"):
        operations.recovery_drill(Application(world.home, name))
    change(world, name, production=False)
    written = threading.Event()

    def write() -> None:
        while not written.is_set():
            world.send(50)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        outcome = operations.recovery_drill(Application(world.home, name), task="0_0", timeout_s=120)
    finally:
        written.set()
        writer.join()
    assert outcome.action == "recovered", outcome.text
    (line,) = map(orjson.loads, world.home.application(name).drills.read_bytes().splitlines())
    assert (line["kind"], line["task"], line["ok"]) == ("worker", "0_0", True)
    assert 0 < line["seconds"] < 120
    assert line == dict(outcome.results["drill"])
