"""Kafka Streams for the scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parity.kafka_streams import KafkaStreams


@pytest.fixture(scope="session")
def kafka_streams() -> Iterator[KafkaStreams]:
    """Kafka Streams' test driver, one JVM for the whole run."""
    with KafkaStreams() as running:
        yield running
