"""The pages as a FastAPI application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from millrace.errors import MillraceError
from millrace.insight.overview import ApplicationDetails, OverviewWatch
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations.dead_letters import list_dead_letter_records
from millrace_airflow.ui import pages
from millrace_airflow.ui.actions import ACTIONS, Action
from millrace_airflow.ui.forms import Field, Option, fields, read_form
from millrace_airflow.ui.gateway import Airflow, AirflowGateway, AirflowRefusedError
from millrace_airflow.ui.guards import SafeHeaders, comes_from_here
from millrace_airflow.ui.words import ago, size

_FRAGMENT = "x-streams-fragment"
_LONGEST_FORM = 64 * 1024
_SHOWN_RECORDS = 100
_DEAD_LETTER_READERS = 4


def airflow_app() -> FastAPI:
    """The pages with Airflow's authentication and rights."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag

    return create_app(
        OverviewWatch(Home.from_environment()),
        AirflowGateway(),
        who=get_user,
        may_view=requires_access_dag("GET"),
        may_run=requires_access_dag("POST", DagAccessEntity.RUN),
    )


def create_app(
    watch: OverviewWatch,
    airflow: Airflow,
    *,
    who: Callable[..., Any],
    may_view: Callable[..., Any],
    may_run: Callable[..., Any],
) -> FastAPI:
    """The pages.

    Args:
        watch: what is known of the applications.
        airflow: what the buttons need.
        who: dependency that gives the person, and answers 401 to nobody.
        may_view: dependency that answers 403 to who may see nothing.
        may_run: dependency that answers 403 to who may not run the DAG ``dag_id`` of the path.
    """
    app = FastAPI(
        dependencies=[Depends(who), Depends(may_view)], docs_url=None, redoc_url=None, openapi_url=None, title="Streams"
    )
    app.add_middleware(SafeHeaders)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(AirflowRefusedError, _airflow_refused)
    site = _Site(watch, airflow)
    person, may_start = Depends(who), [Depends(may_run)]

    @app.get("/")
    async def applications(request: Request) -> Response:
        return await site.applications(request)

    @app.get("/applications/{name}")
    async def application(request: Request, name: str, user: Any = person) -> Response:
        return await site.application(request, name, user)

    @app.get("/applications/{name}/actions/{dag_id}", dependencies=may_start)
    async def panel(request: Request, name: str, dag_id: str) -> Response:
        return await site.panel(request, name, dag_id)

    @app.post("/applications/{name}/actions/{dag_id}", dependencies=may_start)
    async def start(request: Request, name: str, dag_id: str) -> Response:
        return await site.start(request, name, dag_id)

    @app.get("/applications/{name}/dead-letters")
    async def dead_letters(request: Request, name: str) -> Response:
        return await site.dead_letters(request, name)

    @app.get("/applications/{name}/run")
    async def run(request: Request, name: str) -> Response:
        return await site.run(request, name)

    @app.get("/static/{file}")
    async def static(file: str) -> Response:
        if file not in pages.STATIC:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(pages.STATIC[file], headers={"cache-control": "no-cache"})

    return app


class _Site:
    """What the routes do."""

    def __init__(self, watch: OverviewWatch, airflow: Airflow) -> None:
        self._watch = watch
        self._airflow = airflow
        # A cluster that does not answer keeps these waiting, and none of the threads that Airflow's own answers need.
        self._dead_letter_readers = CapacityLimiter(_DEAD_LETTER_READERS)

    async def applications(self, request: Request) -> Response:
        found = await run_in_threadpool(self._watch.applications)
        return pages.applications(request, found, fragment=_FRAGMENT in request.headers)

    async def application(self, request: Request, name: str, user: Any) -> Response:
        details = await self._details(name)
        if _FRAGMENT in request.headers:
            return pages.application(request, details, actions=(), fragment=True)
        runnable = await self._airflow.runnable(request, user)
        return pages.application(request, details, actions=[ACTIONS[dag_id] for dag_id in runnable], fragment=False)

    async def panel(self, request: Request, name: str, dag_id: str) -> Response:
        action, details = _action(dag_id), await self._details(name)
        dag = await self._airflow.dag(request, dag_id)
        asked = fields(dag.params, action, name, savepoints=_savepoints(details))
        return pages.panel(request, details, action, asked, is_paused=dag.is_paused)

    async def start(self, request: Request, name: str, dag_id: str) -> Response:
        if not comes_from_here(request):
            raise HTTPException(403, "This request does not come from a page of this Airflow.")
        action, details = _action(dag_id), await self._details(name)
        dag = await self._airflow.dag(request, dag_id)
        form = await _form(request)
        conf, filled = read_form(form, fields(dag.params, action, name, savepoints=_savepoints(details)))
        problem = "" if not _wrong(filled) else "Nothing was started: see the fields below."
        if not problem:
            try:
                run_id = await self._airflow.trigger(request, dag_id, conf)
            except AirflowRefusedError as error:
                if error.status in {401, 403, 404}:
                    raise
                problem = f"Airflow started nothing: {error.text}"
            else:
                query = urlencode({"dag": dag_id, "run": run_id})
                return RedirectResponse(
                    f"{pages.base(request)}/applications/{quote(name)}/run?{query}", status_code=303
                )
        return pages.panel(request, details, action, filled, is_paused=dag.is_paused, problem=problem)

    async def dead_letters(self, request: Request, name: str) -> Response:
        details = await self._details(name)
        try:
            found = await run_sync(
                lambda: list_dead_letter_records(Application(self._watch.home, name), limit=_SHOWN_RECORDS),
                limiter=self._dead_letter_readers,
            )
        except MillraceError as error:
            return pages.dead_letters(request, details, (), problem=str(error), limit=_SHOWN_RECORDS)
        return pages.dead_letters(request, details, found, limit=_SHOWN_RECORDS)

    async def run(self, request: Request, name: str) -> Response:
        action, run_id = _action(request.query_params.get("dag", "")), request.query_params.get("run", "")
        details = await self._details(name)
        state = await self._airflow.run_state(request, action.dag_id, run_id)
        return pages.run(request, details, action, run_id, state, fragment=_FRAGMENT in request.headers)

    async def _details(self, name: str) -> ApplicationDetails:
        try:
            return await run_in_threadpool(self._watch.application, name)
        except MillraceError as error:
            raise HTTPException(404, str(error)) from error


def _action(dag_id: str) -> Action:
    if dag_id not in ACTIONS:
        raise HTTPException(404, "There is no such operation.")
    return ACTIONS[dag_id]


def _wrong(filled: tuple[Field, ...]) -> bool:
    return any(field.error for field in filled)


def _savepoints(details: ApplicationDetails) -> tuple[Option, ...]:
    # As the DAG wants them: it restores those of other applications too.
    name = details.overview.name
    return tuple(
        Option(value=f"{name}/{each.name}", label=f"{each.name}, {ago(each.created_at)}, {size(each.size)}")
        for each in details.overview.savepoints.complete
    )


async def _form(request: Request) -> dict[str, str]:
    if int(request.headers.get("content-length") or 0) > _LONGEST_FORM:
        raise HTTPException(413, "The form is too long.")
    return {key: value for key, value in (await request.form()).items() if isinstance(value, str)}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return pages.refusal(request, error.status_code, str(error.detail))


async def _airflow_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AirflowRefusedError)
    return pages.refusal(request, error.status, f"Airflow said: {error.text}")
