"""What the DAG files have in common: defaults of their tasks and params for the forms."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import structlog
from airflow.sdk import CronTriggerTimetable, Param

from millrace.errors import MillraceError
from millrace.install.home import Home
from millrace.operations.savepoint_index import KnownSavepoint, read_index
from millrace_airflow.applications import applications
from millrace_airflow.hooks.millrace import LATEST
from millrace_airflow.notifications import MillraceNotifier
from millrace_airflow.operators.applications import ALL

log = structlog.get_logger(__name__)

_SHOWN = 200


def schedule(what: str, default: str, *, at_once: bool = False) -> CronTriggerTimetable | None:
    """Returns when a scheduled DAG runs; ``None``: not by the clock.

    Args:
        what: the end of its name: the variable ``MILLRACE_SCHEDULE_<WHAT>`` of the DAG processor's environment, a cron
            expression in UTC or ``none``, wins over the default.
        default: a cron expression.
        at_once: whether a new Airflow runs it at once, for the time that has passed last. What disturbs applications,
            such as a weekly drill, waits for its next time.
    """
    text = os.environ.get(f"MILLRACE_SCHEDULE_{what.upper()}", default).strip()
    if text.lower() == "none":
        return None
    # False would mean: at once, if the last time has passed within a tenth of the interval.
    return CronTriggerTimetable(text, timezone="UTC", run_immediately=at_once or timedelta(0))


def dag_arguments(*, retries: int = 0) -> dict[str, Any]:
    """Arguments that every DAG has.

    Args:
        retries: tries after the first one. Multi-step operations have some: what was killed goes on with its operation,
            and what is refused fails without another try anyway.
    """
    return {
        "catchup": False,
        "default_args": {
            "on_failure_callback": [MillraceNotifier()],
            "retries": retries,
            "retry_delay": timedelta(seconds=10),
        },
    }


def application_param(*, with_all: bool = False) -> Param:
    """A select of the known applications.

    Args:
        with_all: whether ``all`` can be chosen, and is by default.
    """
    names = [*([ALL] if with_all else []), *applications()]
    return Param(
        names[0] if names else None,
        type="string",
        enum=names,
        title="Application",
        description="One of the files in config/apps"
        + (", or all that run here and that the run is due for." if with_all else "."),
    )


def dry_run_param(*, default: bool) -> Param:
    """The switch of the dry run.

    Args:
        default: on wherever something is deleted or overwritten.
    """
    return Param(default, type="boolean", title="Dry run", description="Only look and log the plan; change nothing.")


def reason_param(default: str) -> Param:
    """A line for the journal."""
    return Param(default, type="string", title="Reason", description="Goes to the application's journal.")


def flag_param(title: str, description: str, *, default: bool = False) -> Param:
    """A switch."""
    return Param(default, type="boolean", title=title, description=description)


def text_param(title: str, description: str, *, default: str = "") -> Param:
    """A text that may be empty."""
    return Param(default, type=["string", "null"], title=title, description=description)


def number_param(title: str, description: str, *, default: float, minimum: float = 0, **limits: Any) -> Param:
    """A number."""
    return Param(default, type="number", minimum=minimum, title=title, description=description, **limits)


def savepoint_param() -> Param:
    """A list of the known savepoints, the newest first; others can be typed in.

    It comes from small local files that every operation on savepoints keeps
    (``millrace.operations.savepoint_index``), so that parsing never waits for a repository; one that cannot be read
    is logged, and its savepoints can be typed in.
    """
    known = known_savepoints()
    newest = [f"{name}/{LATEST}" for name, found in known.items() if found]
    others = [
        (each.created_at, f"{name}/{each.name}", f"{name}: {each.name}, {each.bytes / 1e6:.1f} MB, {each.reason[:60]}")
        for name, found in known.items()
        for each in found
    ]
    listed = [(value, text) for _, value, text in sorted(others, reverse=True)[:_SHOWN]]
    return Param(
        "",
        type="string",
        examples=[*newest, *(value for value, _ in listed)],
        values_display={
            **{value: f"{value.partition('/')[0]}: the newest one" for value in newest},
            **dict(listed),
        },
        title="Savepoint",
        description=f"application/savepoint, as listed; application/{LATEST} is the newest complete one.",
    )


def known_savepoints(home: Home | None = None) -> dict[str, list[KnownSavepoint]]:
    """The complete savepoints of each known application, as the local files have them."""
    home = home or Home.from_environment()
    found = {}
    for name in applications(home):
        try:
            found[name] = [each for each in read_index(home.application(name)) if each.state == "COMPLETED"]
        except MillraceError as error:
            log.warning("list of savepoints left out", application=name, error=str(error))
    return found
