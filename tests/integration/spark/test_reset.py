"""A reset of an application that really ran: it begins again where it is told, and counts as if it had never run."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from millrace.install.application import Application as InstalledApplication
from millrace.install.home import Home
from millrace.operations.reset import ResetOptions, ToOffset, reset
from tests.application import PREFIX_VARIABLE, Application
from tests.integration.spark.conftest import World
from tests.records import Record


@pytest.fixture
def reset_to(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Application, int], None]:
    """Resets a stopped application to an offset."""
    monkeypatch.setenv(PREFIX_VARIABLE, world.name("x").removesuffix("-x"))
    home = Home(root=tmp_path / "home", specs=tmp_path / "specs")
    home.specs.mkdir()

    def run(application: Application, offset: int) -> None:
        document = yaml.safe_load(application.write_specification().read_text())
        home.spec_path(application.application_id).write_text(yaml.safe_dump(document))
        reset(InstalledApplication(home, application.application_id), options=ResetOptions(to=ToOffset(offset)))

    return run


def counts(world: World) -> list[int]:
    """The counts of the key, in the order in which they were written."""
    return [struct.unpack(">q", record.value or b"")[0] for record in world.read("named-out")]


def test_counts_begin_anew_where_the_reset_says_and_with_other_partitions(
    world: World, reset_to: Callable[[Application, int], None]
) -> None:
    """Case S14: the way out that a start with another number of partitions names."""
    world.create("named", "named-out")
    application = world.application("explicit_names", "named")
    world.send("named", *(Record(b"k", b"v", 5) for _ in range(3)))
    application.start_and_wait()
    application.wait_until_caught_up()
    assert application.stop() == 0
    assert counts(world)[-1] == 3
    epoch = application.published_status()
    assert epoch is not None

    reset_to(application, 1)
    assert not (application.state_directory / application.application_id).exists()
    application.start_and_wait()
    application.wait_until_caught_up()
    assert application.stop() == 0
    assert counts(world)[-1] == 2
    before = len(counts(world))

    # The stores that this host had before the second reset come back, as those of another host would.
    kept = application.state_directory.rename(application.directory / "elsewhere")
    world.admin.add_partitions(world.name("named"), 3)
    reset_to(application, 0)
    kept.rename(application.state_directory)
    application.start_and_wait()
    application.wait_until_caught_up()
    assert application.stop() == 0
    assert counts(world)[before:][-1] == 3
    assert "stores are from before a reset" in application.log
