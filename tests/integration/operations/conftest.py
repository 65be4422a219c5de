"""Applications that have run and ended, and processes that die on cue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.kafka.admin import KafkaAdmin
from tests.application import PREFIX_VARIABLE
from tests.integration.operations.resetting import Left, home_in, topics_of


@pytest.fixture
def admin(bootstrap_servers: str, unique: str) -> Iterator[KafkaAdmin]:
    """An administrator; the test's topics are deleted afterwards."""
    made = KafkaAdmin(bootstrap_servers, timeout_s=30.0)
    yield made
    made.delete_topics(topics_of(made, unique))


@pytest.fixture
def leave(
    bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admin: KafkaAdmin
) -> Callable[..., Left]:
    """``leave("my-app", "counting")``: an application over the topics ``in`` and ``out``, which has not run yet."""
    monkeypatch.setenv(PREFIX_VARIABLE, unique)

    def make(name: str, function: str, **config: Any) -> Left:
        settings = {"bootstrap.servers": bootstrap_servers, **{k.replace("_", "."): v for k, v in config.items()}}
        return Left(home_in(tmp_path), f"{unique}-{name}", function, settings)

    return make
