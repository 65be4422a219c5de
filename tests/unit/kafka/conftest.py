"""What tests of Kafka's clients share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.imitated_cluster import ImitatedCluster


@pytest.fixture
def cluster() -> Iterator[ImitatedCluster]:
    cluster = ImitatedCluster()
    yield cluster
    cluster.close()
