"""A broker that may be killed, and a report of what recovery costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.clients import base_settings
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import PREFIX_VARIABLE, Application
from tests.chaos.kills import Chaos, Recovery, processes_of

PARTITIONS = 2
_LARGEST_COPY = 100_000

_recoveries: list[Recovery] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here kills."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.kills)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how long each recovery took."""
    if _recoveries:
        terminalreporter.section("recovery: seconds from the kill until all input of that moment is committed")
        for recovery in _recoveries:
            terminalreporter.write_line(f"{recovery.seconds:6.1f}  {recovery.kind} ({recovery.behind} records behind)")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of its own, since it is killed. It looks for transactions that are too old every second."""
    properties = {
        "log.retention.ms": "-1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    started = EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=properties)
    started.start()
    yield started
    started.kill()


@pytest.fixture
def prefix(broker: EmbeddedBroker, unique: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Prefix of the test's topics, which are there; a broker that a failed test has left killed is started again."""
    if not broker.is_running():
        broker.start()
    admin = AdminClient(base_settings(broker.bootstrap_servers))
    names = ["in", "copy", "running", "folds", "buckets", "aside", "aside-copy"]
    settings = {"copy": {"max.message.bytes": str(_LARGEST_COPY)}}
    topics = [NewTopic(f"{unique}-{name}", PARTITIONS, 1, config=settings.get(name, {})) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)
    # The checker builds the same topology as the driver.
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    return unique


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Path]:
    """Directory of armed crash points; whatever still runs with it is ended after the test."""
    directory = tmp_path / "crash-points"
    directory.mkdir()
    yield directory
    for process in processes_of(directory):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


@pytest.fixture
def make_killable(
    broker: EmbeddedBroker, prefix: str, points: Path, tmp_path: Path
) -> Iterator[Callable[..., Application]]:
    """``make_killable("function", name, **options)``: an application of ``tests.chaos.topologies``, not started."""
    made: list[Application] = []

    def make(function: str = "build", directory: str = "app", **options: Any) -> Application:
        place = tmp_path / directory
        place.mkdir()
        application = Application(
            broker.bootstrap_servers,
            f"{prefix}-app",
            f"tests.chaos.topologies:{function}",
            place,
            prefix=prefix,
            environment={DIRECTORY_VARIABLE: str(points)},
            **options,
        )
        made.append(application)
        return application

    yield make
    for application in made:
        application.kill()


@pytest.fixture
def chaos_for(broker: EmbeddedBroker, points: Path) -> Callable[[Application], Chaos]:
    """What can be done to a running application."""
    return lambda application: Chaos(application, broker, points, _recoveries)
