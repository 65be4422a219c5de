"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from millrace.kafka.clients import base_settings
from tests import broker as test_broker

_RUN = pytest.StashKey[Path]()


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
    """A raw admin client of the run's broker."""
    return AdminClient(base_settings(bootstrap_servers))


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def make_topic(admin_client: AdminClient, unique: str) -> Iterator[Callable[..., str]]:
    """``make_topic("in", partitions=4, **settings)`` creates a topic and gives its full name; deleted afterwards.

    Dots of setting names are written as underscores: ``cleanup_policy="compact"``.
    """
    made: list[str] = []

    def make(name: str = "topic", *, partitions: int = 1, **settings: str) -> str:
        topic = f"{unique}-{name}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        for created in admin_client.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
            created.result(30)
        made.append(topic)
        return topic

    yield make
    if made:
        for deleted in admin_client.delete_topics(made).values():
            deleted.exception(30)
