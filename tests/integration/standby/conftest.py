from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.application import PREFIX_VARIABLE
from tests.integration.standby.counting import Counting


@pytest.fixture
def make_counting(
    bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Counting]]:
    """``make_counting(table=False, settings=None)`` makes the application; its topics are deleted afterwards."""
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    made: list[Counting] = []

    def make(**options: Any) -> Counting:
        made.append(Counting(bootstrap_servers, unique, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.delete_topics()
