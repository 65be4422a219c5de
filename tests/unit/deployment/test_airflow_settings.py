"""What Airflow makes of the project's settings and schedules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.airflow_service import LOCAL_SETTINGS, SETTINGS, read_settings
from tests.application import SEARCH_PATH
from tests.unit.deployment.compose import ROOT


def answer_of(code: str, directory: Path) -> Any:
    """What a program says that has the settings of an Airflow on this machine, and has not started it."""
    places = {"HOME_DIR": str(directory), "ROOT": str(ROOT), "PORT": "1", "SECRET": "secret" * 8}
    settings = {**read_settings(SETTINGS, {}), **read_settings(LOCAL_SETTINGS, places)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **settings, "PYTHONPATH": SEARCH_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_task_waits_for_an_api_server_that_is_busy(tmp_path: Path) -> None:
    """Five starts without an answer end a task; 5 s each were not enough while Airflow started on a third of a core."""
    timeout = answer_of(
        "import json\n"
        "from airflow.sdk.api.client import Client\n"
        "print(json.dumps(Client(base_url='http://127.0.0.1:1', token='none').timeout.as_dict()))",
        tmp_path,
    )
    assert timeout == {"connect": 60, "read": 60, "write": 60, "pool": 60}


_FIRST_RUNS = """
import json, os
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction

bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
assert not bag.import_errors, bag.import_errors
first_runs = {}
for dag in bag.dags.values():
    restriction = TimeRestriction(earliest=dag.start_date, latest=None, catchup=dag.catchup)
    first = coerce_to_core_timetable(dag.timetable).next_dagrun_info(
        last_automated_data_interval=None, restriction=restriction
    )
    if first is not None:
        first_runs[dag.dag_id] = first.run_after.isoformat()
print(json.dumps(first_runs))
"""


def test_a_new_airflow_disturbs_no_application_before_the_scheduled_time(tmp_path: Path) -> None:
    begin = datetime.now(UTC)
    first_runs = {dag: datetime.fromisoformat(first) > begin for dag, first in answer_of(_FIRST_RUNS, tmp_path).items()}
    assert first_runs == {
        "millrace_compaction": True,
        "millrace_metrics_export": False,
        "millrace_reconcile": False,
        "millrace_recovery_drill": True,
        "millrace_savepoint": True,
        "millrace_state_audit": True,
        "millrace_stream_assets": False,
    }
