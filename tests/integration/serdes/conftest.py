"""The registry that the tests of this directory share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.integration.serdes.registry import SchemaRegistryProcess


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryProcess]:
    """A running registry. It is shared: use subjects of your own."""
    with SchemaRegistryProcess(tmp_path_factory.mktemp("registry")) as process:
        yield process


@pytest.fixture(scope="session")
def registry_client(registry: SchemaRegistryProcess) -> SchemaRegistryClient:
    """Confluent's client, for what the tests prepare and look at."""
    return SchemaRegistryClient({"url": registry.url})
