"""The order of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.longest_first import put_first

LONGEST_FIRST = (
    "savepoints/test_stopped_application.py",
    "operations/test_reset.py",
    "operations/test_compaction.py",
    "spark/test_own_broker.py",
    "spark/test_scenarios.py",
    "takeover/test_java_application.py",
    "spark/test_foreign_key_join.py",
    "security/test_application.py",
    "security/test_acls.py",
    "spark/test_elastic_executors.py",
    "spark/test_drivers.py",
    "spark/test_stateful_application.py",
    "spark/test_global_table.py",
    "apps/test_analytics.py",
    "spark/test_join.py",
    "spark/test_final_results.py",
    "savepoints/test_running_application.py",
    "operations/test_compaction_beside.py",
    "kafka/test_task_producer.py",
    "standby/test_takeover.py",
    "start/test_own_project.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_first(items, Path(__file__).parent, LONGEST_FIRST)
