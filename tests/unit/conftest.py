"""What every unit test leaves as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that a test runs sends the logs to the standard error of that test, which is closed afterwards."""
    yield
    structlog.reset_defaults()
