"""What the pages need of Airflow: which DAGs there are, what they ask for, and a run of one of them.

Airflow's own REST interface is asked, inside this process and with the credentials of the person whose request it is:
so what a person may do here is what Airflow lets them do, and its audit log names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from millrace_airflow.ui.actions import ACTIONS

ROOT_APP = "millrace_airflow.root_app"
"""Key of a request's scope under which Airflow's own application stands."""
_LIMIT_S = 30.0


class AirflowRefusedError(Exception):
    """Airflow did not do what was asked.

    Args:
        status: its HTTP status.
        text: what it said.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True, kw_only=True)
class DagView:
    """A DAG.

    Args:
        dag_id: its id.
        is_paused: whether its runs wait.
        params: value, schema and description of each param.
    """

    dag_id: str
    is_paused: bool
    params: Mapping[str, Any]


class Airflow(Protocol):
    """What the pages need of Airflow. Every method acts with the rights of the person who made the request."""

    async def runnable(self, request: Request, user: Any) -> tuple[str, ...]:
        """Those of our DAGs that are there and that the person may run, in the order of the buttons."""

    async def dag(self, request: Request, dag_id: str) -> DagView:
        """One DAG; :class:`AirflowRefusedError` where it is not there, or must not be seen."""

    async def trigger(self, request: Request, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run; its id. :class:`AirflowRefusedError` where Airflow does not."""

    async def run_state(self, request: Request, dag_id: str, run_id: str) -> str:
        """State of a run; :class:`AirflowRefusedError` where it is not there, or must not be seen."""


class AirflowGateway:
    """The Airflow whose process this is."""

    async def runnable(self, request: Request, user: Any) -> tuple[str, ...]:
        """See :class:`Airflow`."""
        answer = await self._request(request, "GET", "/dags", params={"dag_id_pattern": "millrace_", "limit": 200})
        there = {dag["dag_id"] for dag in answer["dags"]}
        return await run_in_threadpool(
            lambda: tuple(dag_id for dag_id in ACTIONS if dag_id in there and _may_run(user, dag_id))
        )

    async def dag(self, request: Request, dag_id: str) -> DagView:
        """See :class:`Airflow`."""
        answer = await self._request(request, "GET", f"/dags/{dag_id}/details")
        return DagView(dag_id=dag_id, is_paused=bool(answer["is_paused"]), params=answer.get("params") or {})

    async def trigger(self, request: Request, dag_id: str, conf: Mapping[str, Any]) -> str:
        """See :class:`Airflow`."""
        body = {"logical_date": None, "conf": dict(conf), "note": "started on the page Streams"}
        return str((await self._request(request, "POST", f"/dags/{dag_id}/dagRuns", json=body))["dag_run_id"])

    async def run_state(self, request: Request, dag_id: str, run_id: str) -> str:
        """See :class:`Airflow`."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
        return str((await self._request(request, "GET", path))["state"])

    async def _request(self, request: Request, method: str, path: str, **options: Any) -> Any:
        own = {
            name: request.headers[name] for name in ("authorization", "cookie", "referer") if name in request.headers
        }
        transport = httpx.ASGITransport(app=request.scope[ROOT_APP])
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow", timeout=_LIMIT_S) as client:
            answer = await client.request(method, f"/api/v2{path}", headers=own, **options)
        if not answer.is_success:
            raise AirflowRefusedError(answer.status_code, _said(answer))
        return answer.json()


def _said(answer: httpx.Response) -> str:
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError):
        detail = answer.text
    return str(detail)[:1000]


def _may_run(user: Any, dag_id: str) -> bool:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails

    return bool(
        get_auth_manager().is_authorized_dag(
            method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
        )
    )
