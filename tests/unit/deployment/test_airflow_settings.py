"""What Airflow makes of the project's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from demo.airflow_service import LOCAL_SETTINGS, SETTINGS, read_settings
from tests.unit.deployment.compose import ROOT

_TIMEOUT = """
import json
from airflow.sdk.api.client import Client
print(json.dumps(Client(base_url="http://127.0.0.1:1", token="none").timeout.as_dict()))
"""


def test_a_task_waits_for_an_api_server_that_is_busy(tmp_path: Path) -> None:
    """Five starts without an answer end a task; 5 s each were not enough while Airflow started on a third of a core."""
    places = {"HOME_DIR": str(tmp_path), "ROOT": str(ROOT), "PORT": "1", "SECRET": "secret" * 8}
    settings = {**read_settings(SETTINGS, {}), **read_settings(LOCAL_SETTINGS, places)}
    done = subprocess.run(
        [sys.executable, "-c", _TIMEOUT], env={**os.environ, **settings}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"connect": 60, "read": 60, "write": 60, "pool": 60}
