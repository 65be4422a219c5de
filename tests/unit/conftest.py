"""What every unit test leaves as it found it, and the order of the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.longest_first import put_first

LONGEST_FIRST = (
    "supervise/upgrade/test_upgrade.py",
    "task/test_batches.py",
    "supervise/test_reconcile.py",
    "project/test_commands.py",
    "cli/test_init.py",
    "monitoring/test_rules.py",
    "insight/test_seen_while_it_happens.py",
    "testing/test_final_results.py",
    "serdes/test_json.py",
    "install/launchers/test_kubernetes.py",
    "spark/test_early_daemon.py",
    "testing/test_foreign_key_serde_changes.py",
    "cli/test_commands.py",
    "state/test_versioned.py",
    "airflow/triggers/test_supervise.py",
    "operations/test_execute.py",
    "driver/test_driver.py",
    "project/test_words.py",
    "supervise/test_deploying_changed_code.py",
    "serdes/test_json_shapes.py",
    "kafka/columns/test_disputed_offsets.py",
    "cli/submitted/test_pod.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_first(items, Path(__file__).parent, LONGEST_FIRST)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that a test runs sends the logs to the standard error of that test, which is closed afterwards."""
    yield
    structlog.reset_defaults()
