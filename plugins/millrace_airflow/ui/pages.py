"""The pages as HTML: templates with autoescape, and what they need to write values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from millrace.insight.overview import ApplicationDetails, ApplicationOverview
from millrace.operations.dead_letters import ListedDeadLetterRecord
from millrace_airflow.ui import words
from millrace_airflow.ui.actions import Action
from millrace_airflow.ui.forms import Field
from millrace_airflow.ui.picture import SYMBOLS, part_words, topology_picture
from millrace_airflow.ui.sparkline import sparkline

_HERE = Path(__file__).parent
STATIC = {path.name: path for path in sorted((_HERE / "static").iterdir())}
VERDICTS = {
    "healthy": ("✓", "Healthy"),
    "waiting": ("◔", "Waiting"),
    "stalled": ("◑", "Not progressing"),
    "unhealthy": ("▲", "Unhealthy"),
    "dead": ("✕", "Dead"),
    "fenced": ("⊘", "Fenced"),
    "stopped": ("■", "Stopped"),
    "not_deployed": ("○", "Not deployed"),
}
_ORDER = ("dead", "fenced", "unhealthy", "stalled", "waiting", "healthy", "stopped", "not_deployed")
_SESSION_ENDED = 401

_environment = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "number": words.number,
    "per_second": words.per_second,
    "size": words.size,
    "duration": words.duration,
    "ago": words.ago,
    "moment": words.moment,
    "iso": words.iso,
    "journal_time": words.journal_time,
    "quoted": lambda text: quote(text, safe=""),
}
_environment.globals |= {
    "verdicts": VERDICTS,
    "sparkline": sparkline,
    "topology_picture": topology_picture,
    "part_words": part_words,
    "part_symbols": SYMBOLS,
}


def base(request: Request) -> str:
    """Where the pages are, without a slash at the end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def applications(request: Request, found: Iterable[ApplicationOverview], *, fragment: bool) -> Response:
    """All applications: those that need an operator come first."""
    ordered = sorted(found, key=lambda each: (_ORDER.index(each.verdict), each.name))
    return _page(request, "applications", fragment=fragment, applications=ordered)


def application(
    request: Request, details: ApplicationDetails, *, actions: Sequence[Action], fragment: bool
) -> Response:
    """One application."""
    return _page(request, "application", fragment=fragment, details=details, app=details.overview, actions=actions)


def panel(
    request: Request,
    details: ApplicationDetails,
    action: Action,
    asked: Sequence[Field],
    *,
    is_paused: bool,
    problem: str = "",
) -> Response:
    """What a button would start, to be confirmed."""
    return _page(
        request,
        "panel",
        status=400 if problem else 200,
        app=details.overview,
        action=action,
        fields=asked,
        is_paused=is_paused,
        problem=problem,
    )


def dead_letters(
    request: Request,
    details: ApplicationDetails,
    found: Iterable[ListedDeadLetterRecord],
    *,
    limit: int,
    problem: str = "",
) -> Response:
    """The latest dead-letter records of an application, without keys and values: whoever may look need not see
    those."""
    latest = sorted(found, key=lambda each: each.record.timestamp, reverse=True)
    return _page(request, "dead_letters", app=details.overview, records=latest, limit=limit, problem=problem)


def run(
    request: Request, details: ApplicationDetails, action: Action, run_id: str, state: str, *, fragment: bool
) -> Response:
    """A run that was started."""
    prefix = base(request)
    link = f"{prefix[: prefix.rfind('/')] if prefix else ''}/dags/{action.dag_id}/runs/{quote(run_id, safe='')}"
    return _page(
        request, "run", fragment=fragment, app=details.overview, action=action, run_id=run_id, state=state, link=link
    )


def refusal(request: Request, status: int, text: str) -> Response:
    """Why there is nothing to be seen."""
    if status == _SESSION_ENDED:
        text = "You are not signed in, or your session has ended. Sign in to Airflow and open this page again."
    return _page(request, "refusal", status=status, code=status, text=text)


def _page(request: Request, name: str, *, fragment: bool = False, status: int = 200, **values: Any) -> Response:
    template = _environment.get_template(f"_{name}.html" if fragment else f"{name}.html")
    return HTMLResponse(template.render(base=base(request), **values), status_code=status)
