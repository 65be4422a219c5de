"""The pages without Airflow: what they need of it is stood in for here; tests/airflow/test_ui.py has the real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import HTTPException, Request
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from millrace.insight.overview import OverviewWatch
from millrace.install.home import Home
from millrace_airflow.ui.actions import ACTIONS
from millrace_airflow.ui.app import create_app
from millrace_airflow.ui.gateway import AirflowRefusedError, DagView

APPLICATION = "payments"
PARAMS = {
    "application": {"value": APPLICATION, "schema": {"type": "string", "enum": [APPLICATION, "other"]}},
    "dry_run": {"value": False, "description": "Only log.", "schema": {"type": "boolean", "title": "Dry run"}},
    "reason": {"value": "by hand", "schema": {"type": "string", "title": "Reason"}},
    "limit": {"value": 3, "schema": {"type": "integer", "minimum": 0}},
    "stores": {"value": None, "schema": {"type": ["null", "array"]}},
    "mode": {"value": "fast", "schema": {"type": "string", "enum": ["fast", "slow"]}},
}


class StandInAirflow:
    """What the pages need of Airflow."""

    def __init__(self) -> None:
        self.there = tuple(ACTIONS)
        self.started: list[tuple[str, dict[str, Any]]] = []
        self.refusal: AirflowRefusedError | None = None

    async def runnable(self, request: Request, user: Any) -> tuple[str, ...]:
        return self.there if user == "admin" else ()

    async def dag(self, request: Request, dag_id: str) -> DagView:
        if dag_id not in self.there:
            raise AirflowRefusedError(404, f"{dag_id} was not found")
        return DagView(dag_id=dag_id, is_paused=False, params=PARAMS)

    async def trigger(self, request: Request, dag_id: str, conf: Mapping[str, Any]) -> str:
        if self.refusal:
            raise self.refusal
        self.started.append((dag_id, dict(conf)))
        return "manual__2026-01-01T00:00:00+00:00"

    async def run_state(self, request: Request, dag_id: str, run_id: str) -> str:
        return "queued"


def person(request: Request) -> str:
    if (name := request.headers.get("x-person")) is None:
        raise HTTPException(401, "Not authenticated")
    return name


def may_run(request: Request) -> None:
    if request.headers.get("x-person") != "admin":
        raise HTTPException(403, "Forbidden")


@pytest.fixture
def airflow() -> StandInAirflow:
    return StandInAirflow()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir()
    document = {"name": APPLICATION, "module": "apps.nothing:build", "config": {"bootstrap.servers": "localhost:1"}}
    home.spec_path(APPLICATION).write_text(yaml.safe_dump(document))
    return home


@pytest.fixture
def admin(home: Home, airflow: StandInAirflow) -> Iterator[TestClient]:
    watch = OverviewWatch(home)
    pages = create_app(watch, airflow, who=person, may_view=lambda: None, may_run=may_run)
    with TestClient(Starlette(routes=[Mount("/millrace", pages)]), headers={"x-person": "admin"}) as client:
        yield client
    watch.close()
