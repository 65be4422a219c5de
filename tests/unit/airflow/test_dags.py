"""The DAG files, parsed as Airflow parses them, without a database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from millrace.install.home import Home
from millrace.operations.savepoint_index import write_index
from millrace.operations.savepoints.manifest import Manifest, SavepointState
from scripts.references.dags import read

REPOSITORY = Path(__file__).resolve().parents[3]
DELETING = {
    "millrace_canary",
    "millrace_reset",
    "millrace_restore",
    "millrace_dead_letter_replay",
    "millrace_operations",
}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The DAGs of an installation with the applications of this checkout, some that are broken, and savepoints."""
    root = tmp_path_factory.mktemp("home")
    shutil.copytree(REPOSITORY / "config" / "apps", root / "apps")
    (root / "apps" / "broken.yaml").write_text("name: [")
    (root / "apps" / "latin.yaml").write_bytes("description: Aufträge".encode("latin-1"))
    (root / "apps" / "utf-16.yaml").write_bytes("name: utf-16".encode("utf-16"))
    (root / "apps" / "directory.yaml").mkdir()
    (root / "apps" / "loop.yaml").symlink_to(root / "apps" / "loop.yaml")
    (root / "apps" / "empty.yaml").write_bytes(b"")
    (root / "apps" / "misnamed.yaml").write_text("name: other\nmodule: a:b\nconfig: {bootstrap.servers: a}\n")
    home = Home(root=root, specs=root / "apps")
    taken = [
        Manifest(name=f"s{number}", application="fraud-detection", state=state, created_at=number)
        for number, state in enumerate([SavepointState.COMPLETED, SavepointState.FAILED, SavepointState.COMPLETED])
    ]
    write_index(home.application("fraud-detection"), map(Manifest.known, taken))
    return read(
        root,
        home.specs,
        {"MILLRACE_SCHEDULE_COMPACTION": "none", "MILLRACE_SCHEDULE_STATE_AUDIT": "0 4 * * 0"},
    )


def test_there_is_one_dag_a_file_and_one_supervise_dag_for_each_specification(parsed: dict[str, Any]) -> None:
    """Case A07: one active run, no catchup; case A12: no file hides the others."""
    assert parsed["errors"] == {}
    supervised = {f"millrace_supervise_{path.stem}" for path in (REPOSITORY / "config" / "apps").glob("*.yaml")}
    files = {path.stem for path in (REPOSITORY / "dags").glob("*.py")} - {"millrace_supervise"}
    assert set(parsed["dags"]) == files | supervised
    for name, dag in parsed["dags"].items():
        assert "millrace" in dag["tags"], name
        assert dag["doc"], name
        assert not dag["catchup"], name
        assert dag["notified"], name
    scheduled = {name for name, dag in parsed["dags"].items() if dag["schedule"] != "None"}
    for name in supervised | scheduled:
        assert parsed["dags"][name]["max_active_runs"] == 1, name


def test_every_param_has_a_type_a_title_and_a_description(parsed: dict[str, Any]) -> None:
    for name, dag in parsed["dags"].items():
        for param, schema in dag["params"].items():
            assert schema["type"], (name, param)
            assert schema["title"], (name, param)
            assert schema["description"], (name, param)
            assert param == "savepoint" or "enum" in schema or schema["type"] != "string" or param in {"reason"}, (
                name,
                param,
            )
        # What is for production cannot be chosen for a drill.
        if "application" in dag["params"] and name != "millrace_recovery_drill":
            assert "fraud-detection" in dag["params"]["application"]["enum"], name


def test_whatever_deletes_is_dry_unless_it_is_told_otherwise(parsed: dict[str, Any]) -> None:
    for name in DELETING:
        assert parsed["dags"][name]["params"]["dry_run"]["value"] is True, name


def test_complete_savepoints_can_be_chosen_the_newest_first(parsed: dict[str, Any]) -> None:
    schema = parsed["dags"]["millrace_restore"]["params"]["savepoint"]
    assert schema["examples"] == ["fraud-detection/latest", "fraud-detection/s2", "fraud-detection/s0"]
    assert set(schema["values_display"]) == set(schema["examples"])


def test_schedules_come_from_the_environment(parsed: dict[str, Any]) -> None:
    assert parsed["dags"]["millrace_compaction"]["schedule"] == "None"
    assert parsed["dags"]["millrace_state_audit"]["schedule"] == "0 4 * * 0"
    assert parsed["dags"]["millrace_savepoint"]["schedule"] == "*/10 * * * *"


def test_a_new_airflow_disturbs_no_application_before_the_scheduled_time(tmp_path: Path) -> None:
    dags = read(tmp_path, tmp_path / "apps", {})["dags"]
    waits = {name: dag["first_run_waits"] for name, dag in dags.items() if dag["first_run_waits"] is not None}
    assert waits == {
        "millrace_compaction": True,
        "millrace_metrics_export": False,
        "millrace_reconcile": False,
        "millrace_recovery_drill": True,
        "millrace_savepoint": True,
        "millrace_state_audit": True,
        "millrace_stream_assets": False,
    }
