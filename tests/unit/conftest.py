"""What every unit test leaves as it found it, and the order of the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.longest_first import put_first

LONGEST_FIRST = (
    "supervise/upgrade/test_upgrade.py",
    "supervise/test_reconcile.py",
    "insight/test_seen_while_it_happens.py",
    "install/launchers/test_kubernetes.py",
    "cli/test_commands.py",
    "task/test_batches.py",
    "airflow/triggers/test_supervise.py",
    "serdes/test_json.py",
    "driver/test_driver.py",
    "project/test_commands.py",
    "supervise/test_deploying_changed_code.py",
    "testing/test_foreign_key_serde_changes.py",
    "state/test_versioned.py",
    "kafka/columns/test_disputed_offsets.py",
    "monitoring/test_rules.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_first(items, Path(__file__).parent, LONGEST_FIRST)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that a test runs sends the logs to the standard error of that test, which is closed afterwards."""
    yield
    structlog.reset_defaults()
