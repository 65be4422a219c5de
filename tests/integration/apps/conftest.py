"""A real PostgreSQL with the shop's tables, and the topics of the relay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from apps import order_outbox
from demo.postgres import running_postgres
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests.broker import RUN_VARIABLE, exclusive


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The connection string of the module's server."""
    with running_postgres() as address:
        yield address


@pytest.fixture
def the_only_shop() -> Iterator[None]:
    """The relay's topics and its transactional id have fixed names: tests of other workers wait here."""
    with exclusive(Path(os.environ[RUN_VARIABLE]) / "shop.lock"):
        yield


@pytest.fixture
def shop(the_only_shop: None, database: str, bootstrap_servers: str) -> Iterator[psycopg.Connection[Any]]:
    """The shop's empty tables; the relay's topics exist, the one of the orders with a single partition."""
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_missing(
        [
            TopicSpec(name=order_outbox.TOPIC, partitions=1),
            TopicSpec(name=order_outbox.POSITIONS, partitions=1, settings={"cleanup.policy": "compact"}),
        ]
    )
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(order_outbox.SCHEMA)
        yield connection
        connection.execute("DROP TABLE orders, order_outbox")
    admin.delete_topics([order_outbox.TOPIC, order_outbox.POSITIONS])
