"""Every DAG with its params, as Airflow reads the files in dags/."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.references.markdown import GENERATED, code, table

DAGS = Path(__file__).resolve().parents[2] / "dags"
_APPLICATION = "NAME"
_SPECIFICATION = f"""\
name: {_APPLICATION}
module: apps.fraud_detection:build
production: false
config: {{bootstrap.servers: "localhost:9092"}}
"""
READER = """
import sys, json
from datetime import UTC, datetime
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction

def waits(dag):
    begin = datetime.now(UTC)
    restriction = TimeRestriction(earliest=dag.start_date, latest=None, catchup=dag.catchup)
    first = coerce_to_core_timetable(dag.timetable).next_dagrun_info(
        last_automated_data_interval=None, restriction=restriction
    )
    return first and first.run_after > begin

bag = DagBag(sys.argv[1])
print("RESULT" + json.dumps({
    "errors": bag.import_errors,
    "dags": {
        dag.dag_id: {"tags": sorted(dag.tags), "doc": dag.doc_md, "catchup": dag.catchup,
                     "max_active_runs": dag.max_active_runs,
                     "schedule": str(getattr(dag.schedule, "expression", dag.schedule)),
                     "first_run_waits": waits(dag),
                     "params": {name: {"value": param.value, "description": param.description, **param.schema}
                                for name, param in ((name, dag.params.get_param(name)) for name in dag.params)},
                     "notified": all(task.has_on_failure_callback for task in dag.tasks)}
        for dag in bag.dags.values()
    },
}))
"""
_BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most"}
_INTRODUCTION = f"""\
# The DAGs and their params

`NAME` stands for each of the installation's applications. What a DAG is for, and what to know before one is started, is
told in [Operating applications from Airflow](airflow.md).

{GENERATED}

"""


def read(home: Path, specifications: Path, environment: Mapping[str, str], *, dags: Path = DAGS) -> dict[str, Any]:
    """What Airflow makes of the DAG files, without a database: ``dags`` by their ids, and ``errors``.

    Args:
        home: the installation, also Airflow's.
        specifications: where the applications' specifications are.
        environment: more variables; those of this process that set Millrace up are left out.
        dags: the DAG folder; by default that of the checkout.
    """
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Airflow gives a file 30 s, which a busy machine may need; what is read here is never too late.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "0",
        "MILLRACE_HOME": str(home),
        "MILLRACE_CONFIG_DIR": str(specifications),
        **environment,
    }
    command = [sys.executable, "-c", READER, str(dags)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    return dict(json.loads(line.removeprefix("RESULT")))


def page() -> str:
    """The reference page, Markdown."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        specifications = home / "apps"
        specifications.mkdir()
        (specifications / f"{_APPLICATION}.yaml").write_text(_SPECIFICATION)
        found = read(home, specifications, {})
    if found["errors"]:
        raise RuntimeError(f"DAG files cannot be read: {found['errors']}")
    sections = (_section(name, dag) for name, dag in sorted(found["dags"].items()))
    return _INTRODUCTION + "\n\n".join(sections) + "\n"


def _section(name: str, dag: dict[str, Any]) -> str:
    title, _, text = dag["doc"].strip().partition("\n")
    facts = f"{title.lstrip('# ')}. Schedule: {_schedule(dag['schedule'])}. Tags: {', '.join(map(code, dag['tags']))}."
    parts = [f"## {name}", facts, text.strip()]
    if dag["params"]:
        rows = (_row(param, schema) for param, schema in dag["params"].items())
        parts.append(table(("param", "in the form", "type", "default", "meaning"), rows))
    return "\n\n".join(part for part in parts if part)


def _schedule(text: str) -> str:
    if text == "None":
        return "none"
    if found := re.search(r"Asset\(name='(.*?)'.*expression='(.*?)'", text):
        return f"`{found[2]}` UTC, and at each event of the asset `{found[1]}`"
    return f"`{text}` UTC"


def _row(name: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = " or ".join(each for each in types if each != "null")
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    if choices := schema.get("enum"):
        kind = "one of " + ", ".join(code(choice) if choice else "nothing" for choice in choices)
    value = schema["value"]
    default = "empty" if value == "" else code(str(value).lower() if isinstance(value, bool) else value)
    return f"`{name}`", schema["title"], ", ".join([kind, *bounds]), default, schema["description"]
