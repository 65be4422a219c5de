from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.insight.overview import OverviewWatch, WatchOptions, application_overview, applications_overview
from millrace.insight.overview.operation_history import journal_end
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import Home
from millrace.launch import observe
from millrace.supervise import deploy
from tests.waiting import eventually, stop_process

LIMIT_S = 60


def wait_until_healthy(home: Home, name: str) -> None:
    eventually(lambda: observe(Application(home, name)).verdict.value, "healthy", limit_s=LIMIT_S)


@pytest.fixture
def watch(home: Home) -> Iterator[OverviewWatch]:
    watch = OverviewWatch(home, WatchOptions(interval_s=0.1, first_probe_s=5, slow_s=1))
    yield watch
    watch.close()


def test_one_bad_application_is_shown_with_what_is_wrong_and_hides_no_other(
    home: Home, write_spec: Callable[..., Path]
) -> None:
    """Case A12."""
    write_spec("good")
    home.spec_path("no-yaml").write_text("name: [")
    home.spec_path("latin").write_bytes("description: Aufträge".encode("latin-1"))
    home.spec_path("directory").mkdir()
    home.application("no-record").path.mkdir(parents=True)
    home.application("no-record").record.write_text("{}")
    found = {each.name: each for each in applications_overview(home)}
    assert set(found) == {"directory", "good", "latin", "no-record", "no-yaml"}
    assert found["good"].verdict == "not_deployed"
    assert not found["good"].problem
    assert "is not valid YAML" in found["no-yaml"].problem
    assert "is not UTF-8" in found["latin"].problem
    assert "is a directory, not a file" in found["directory"].problem
    assert "is not a record of a job" in found["no-record"].problem
    home.application("no-record").record.unlink()


def test_a_driver_is_seen_and_its_journal_and_nothing_is_written(home: Home, write_spec: Callable[..., Path]) -> None:
    write_spec()
    deploy(Application(home, "payments"), reason="for a test")
    wait_until_healthy(home, "payments")
    supervision = home.application("payments").supervision.read_bytes()
    found = application_overview(Application(home, "payments"))
    assert found.overview.verdict == "healthy"
    assert found.overview.lag == 0
    assert any(entry.what == "launch" and "for a test" in entry.details for entry in found.journal)
    assert home.application("payments").supervision.read_bytes() == supervision


def test_rates_come_with_the_second_look(home: Home, write_spec: Callable[..., Path], watch: OverviewWatch) -> None:
    write_spec()
    deploy(Application(home, "payments"), reason="for a test")
    eventually(lambda: bool(len(watch.application("payments").overview.lag_points) > 3), True, limit_s=LIMIT_S)
    assert watch.application("payments").overview.rate == pytest.approx(10, abs=9)


def test_a_driver_that_hangs_delays_nobody_and_is_said_to_be_old(
    home: Home, write_spec: Callable[..., Path], watch: OverviewWatch
) -> None:
    for name in ("hangs", "works"):
        write_spec(name)
        deploy(Application(home, name), reason="for a test")
        wait_until_healthy(home, name)
    eventually(lambda: bool(all(each.verdict == "healthy" for each in watch.applications())), True, limit_s=LIMIT_S)
    process = observe(Application(home, "hangs")).process
    assert process is not None
    stop_process(process.pid)
    try:
        eventually(
            lambda: bool(next(each for each in watch.applications() if each.name == "hangs").problem),
            True,
            limit_s=LIMIT_S,
        )
        stuck_at = time.time()
        works = lambda: next(each for each in watch.applications() if each.name == "works")  # noqa: E731
        eventually(lambda: works().at > stuck_at, True, limit_s=LIMIT_S)
        assert works().verdict == "healthy"
    finally:
        process.send_signal(signal.SIGCONT)


def test_an_application_that_is_gone_is_forgotten_and_a_name_is_no_path(
    home: Home, write_spec: Callable[..., Path], watch: OverviewWatch
) -> None:
    path = write_spec("short-lived")
    assert [each.name for each in watch.applications()] == ["short-lived"]
    path.unlink()
    assert watch.applications() == ()
    for name in ("short-lived", "../../etc", ""):
        with pytest.raises(OperationError, match="There is no application"):
            watch.application(name)


def test_of_a_long_journal_only_the_end_is_read(home: Home) -> None:
    directory = home.application("payments")
    for number in range(3_000):
        append_journal(directory, "deploy", "launch", number=number, reason="x" * 60)
    with directory.journal.open("ab") as file:
        file.write(b'{"at": "cut')
    found = journal_end(directory, limit=5)
    assert [entry.details.split(",")[0] for entry in found] == [
        f"number: {number}" for number in range(2_999, 2_994, -1)
    ]
    assert journal_end(home.application("nobody")) == ()
