"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
from confluent_kafka.admin import AdminClient

from millrace.embedded.broker import JAVA_OPTIONS_VARIABLE
from millrace.garbage import collector_paused
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings
from millrace.kafka.java import QUICK_TO_START
from millrace.kafka.topics import TopicSpec
from tests import broker as test_broker
from tests.application import STARTED, Application

_RUN = pytest.StashKey[Path]()

# The same examples in every run, so that a change and nothing else makes a test fail; HYPOTHESIS_PROFILE=random looks
# for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("random", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--list-long", action="store_true", help="list what is marked `long`, with the reasons, and run nothing"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each `long` mark says why its tests are left out of the default."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        if (mark := item.get_closest_marker("long")) is not None:
            if len(mark.args) != 1:
                raise pytest.UsageError(f'{item.nodeid}: `long` needs its reason: @pytest.mark.long("why")')
            reasons.setdefault(mark.args[0], []).append(item.nodeid)
    if config.getoption("--list-long"):
        for reason, names in reasons.items():
            print(f"{reason}:", *names, sep="\n  ")  # noqa: T201 - it is what was asked for
        items.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what the applications that run have written last."""
    report = yield
    if report.failed:
        report.sections += [
            (f"the end of the log of {application.application_id}", application.end_of_log())
            for application in STARTED
            if application.is_alive()
        ]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: looking for garbage in it again and again took a third of the time."""
    with collector_paused():
        return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--list-long") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore interrupts; what tests start must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault(JAVA_OPTIONS_VARIABLE, " ".join(QUICK_TO_START))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_RUN] = test_broker.open_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUN in config.stash:
        test_broker.close_run(config.stash[_RUN])


@pytest.fixture(scope="session")
def bootstrap_servers() -> str:
    """Address of the run's broker. It is shared: use topic, group and transactional ids of your own."""
    return test_broker.shared_broker_address()


@pytest.fixture(scope="session")
def admin_client(bootstrap_servers: str) -> AdminClient:
    """A raw admin client of the run's broker, for what :class:`KafkaAdmin` does not offer."""
    return AdminClient(base_settings(bootstrap_servers))


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def make_topic(bootstrap_servers: str, unique: str) -> Iterator[Callable[..., str]]:
    """``make_topic("in", partitions=4, **settings)`` creates a topic and gives its full name; deleted afterwards.

    Dots of setting names are written as underscores: ``cleanup_policy="compact"``.
    """
    made: list[str] = []

    def make(name: str = "topic", *, partitions: int = 1, **settings: str) -> str:
        topic = f"{unique}-{name}"
        named = {key.replace("_", "."): value for key, value in settings.items()}
        KafkaAdmin(bootstrap_servers).create_missing([TopicSpec(name=topic, partitions=partitions, settings=named)])
        made.append(topic)
        return topic

    yield make
    KafkaAdmin(bootstrap_servers).delete_topics(made)


@pytest.fixture
def make_application(bootstrap_servers: str, unique: str, tmp_path: Path) -> Iterator[Callable[..., Application]]:
    """``make_application("package.module:function", **options)`` prepares an application, not started; see
    :class:`Application`. Its driver and what that started are killed after the test.

    Topics are prefixed as those of ``make_topic``.
    """
    made: list[Application] = []

    def make(module: str, name: str = "app", **options: Any) -> Application:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        servers = options.pop("bootstrap_servers", bootstrap_servers)
        application = Application(servers, f"{unique}-{name}", module, directory, **{"prefix": unique, **options})
        made.append(application)
        return application

    yield make
    for application in made:
        application.kill()
