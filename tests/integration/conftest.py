"""The order of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.longest_first import put_first

LONGEST_FIRST = (
    "start/test_own_project.py",
    "spark/test_stream_threads.py",
    "security/test_acls.py",
    "spark/test_refused_starts.py",
    "operations/test_compaction.py",
    "spark/test_stateful_application.py",
    "kafka/columns/test_faults.py",
    "spark/test_own_broker.py",
    "savepoints/test_stopped_application.py",
    "spark/test_elastic_executors.py",
    "standby/test_takeover.py",
    "spark/test_global_table.py",
    "launch/test_preflight.py",
    "operations/test_dead_letters.py",
    "takeover/test_java_application.py",
    "spark/test_killed_batches.py",
    "task/test_scenarios_on_broker.py",
    "monitoring/test_proof.py",
    "spark/test_reset.py",
    "savepoints/test_running_application.py",
    "embedded/test_cluster.py",
    "kafka/columns/test_records.py",
    "operations/test_audit.py",
    "launch/test_kubernetes_submission.py",
    "security/test_application.py",
    "kafka/test_task_producer.py",
    "spark/test_drivers.py",
    "spark/test_stateless_application.py",
    "spark/test_processors.py",
    "kafka/test_groups.py",
    "spark/test_queries.py",
    "spark/test_foreign_key_join.py",
    "start/test_five_minute_start.py",
    "spark/test_fatal_records.py",
    "embedded/test_broker.py",
    "operations/test_reset.py",
    "security/test_clients.py",
    "savepoints/test_canary_without_spark.py",
    "spark/test_join.py",
    "spark/test_old_records.py",
    "savepoints/test_partition_count.py",
    "task/test_refused_records.py",
    "apps/test_order_pipeline.py",
    "savepoints/test_upgrade_without_spark.py",
    "task/test_lost_state.py",
    "driver/test_driver_process.py",
    "security/test_oauth.py",
    "apps/test_order_outbox.py",
    "spark/test_fraud_detection.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_first(items, Path(__file__).parent, LONGEST_FIRST)
