"""The DAG files, parsed as Airflow parses them, without a database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys, json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print("RESULT" + json.dumps({
    "errors": bag.import_errors,
    "dags": {
        dag.dag_id: {"tags": sorted(dag.tags), "doc": bool(dag.doc_md), "catchup": dag.catchup,
                     "max_active_runs": dag.max_active_runs, "schedule": str(dag.schedule)}
        for dag in bag.dags.values()
    },
}))
"""


def test_there_is_one_supervise_dag_for_each_specification_and_none_has_errors(tmp_path: Path) -> None:
    """Case A07: one active run, no catchup."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "MILLRACE_HOME": str(tmp_path),
    }
    environment.pop("MILLRACE_CONFIG_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(REPOSITORY / "dags")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    result = orjson.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[6:])
    assert result["errors"] == {}
    names = {path.stem for path in (REPOSITORY / "config" / "apps").glob("*.yaml")}
    supervised = {f"millrace_supervise_{name}" for name in names}
    assert (
        set(result["dags"])
        == {
            "millrace_deploy",
            "millrace_stop",
            "millrace_reconcile",
            "millrace_recovery_drill",
        }
        | supervised
    )
    for name, dag in result["dags"].items():
        assert "millrace" in dag["tags"], name
        assert dag["doc"], name
        assert not dag["catchup"], name
    for name in {*supervised, "millrace_reconcile"}:
        assert result["dags"][name]["max_active_runs"] == 1
