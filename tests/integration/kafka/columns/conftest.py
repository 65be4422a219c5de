"""Each test here runs with every reader there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.kafka.columns.reading import READERS, Reading, opened


@pytest.fixture(params=READERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_reading(bootstrap_servers: str, kind: str) -> Iterator[Callable[..., Reading]]:
    """``open_reading({(topic, 0): 0}, **settings)`` opens a reader that is assigned this; closed after the test."""
    made: list[Reading] = []

    def make(starts: dict[tuple[str, int], int], **settings: Any) -> Reading:
        made.append(opened(kind, settings.pop("bootstrap_servers", bootstrap_servers), **settings))
        made[-1].reader.assign(starts)
        return made[-1]

    yield make
    for reading in made:
        reading.reader.close()
