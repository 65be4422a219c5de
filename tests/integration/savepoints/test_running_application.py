"""A savepoint of a running application, taken and restored while records keep coming."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millrace import operations, supervise
from millrace.install.application import Application
from millrace.operations.savepoints import (
    SavepointState,
    create_savepoint,
    list_savepoints,
    restore_savepoint,
    verify_savepoint,
)
from tests.integration.savepoints.conftest import OUTPUTS, Installation


def test_an_application_goes_back_to_a_savepoint_and_counts_every_record_once(
    make_installation: Callable[..., Installation],
) -> None:
    """Case S17: results since the savepoint come again, records behind it are never skipped."""
    world = make_installation()
    name = world.specify()
    world.send(500)
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    world.wait_until_caught_up(name)
    writing = threading.Event()

    def write() -> None:
        while not writing.is_set():
            world.send(200)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        outcome = create_savepoint(Application(world.home, name), name="first", reason="a test")
        second = create_savepoint(Application(world.home, name), name="second", reason="a test")
    finally:
        writing.set()
        writer.join()
    assert second.results["complete"]["copied_bytes"] < second.results["complete"]["bytes"]
    assert outcome.results["complete"]["copied_bytes"] > 0
    verify_savepoint(Application(world.home, name), "first")
    first, after = list_savepoints(Application(world.home, name))
    assert (first.state, first.parent) == (SavepointState.COMPLETED, None)
    assert (after.state, after.parent) == (SavepointState.COMPLETED, "first")
    world.wait_until_caught_up(name)
    operations.stop(Application(world.home, name))
    world.send(100)

    plan = restore_savepoint(Application(world.home, name), "second", dry_run=True)
    assert any("results since the savepoint stay" in step for step in plan.steps)
    restore_savepoint(Application(world.home, name), "second")
    before = {output: world.last_counts(output) for output in OUTPUTS}
    status = world.status(name)
    assert status is not None
    assert status.reason == f"restored from savepoint second of {name}"
    supervise.deploy(Application(world.home, name))
    supervise.wait_until_ready(Application(world.home, name))
    world.send(100)
    world.wait_until_caught_up(name)
    for output in OUTPUTS:
        assert world.last_counts(output) == world.expected(output), output
        assert world.last_counts(output) != before[output]
