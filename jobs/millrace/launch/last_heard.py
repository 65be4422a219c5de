"""What a driver that does not answer has said last: at the last probe of it, or in the status topic."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from millrace.driver.status import ApplicationStatus
from millrace.errors import MillraceError
from millrace.install.files import read_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import DriverInstance
from millrace.install.spec import ApplicationSpec

_PUBLISHED_LIMIT_S = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class LastHeard:
    """What a driver said last, before it fell silent.

    Args:
        at: when it said so, seconds since the epoch.
        state: the application's own state then.
        lag: records behind then, where known.
        last_commit_at: when an offset was committed last, seconds since the epoch, where one was.
    """

    at: float
    state: str = ""
    lag: int | None = None
    last_commit_at: float | None = None

    @classmethod
    def of(cls, status: ApplicationStatus) -> LastHeard:
        """What a status says."""
        return cls(
            at=status.updated_at,
            state=status.state.value,
            lag=status.total_lag,
            last_commit_at=status.last_commit_at,
        )


def remembered(directory: ApplicationDirectory, driver: DriverInstance | None) -> LastHeard | None:
    """What the driver said at the last probe at which it answered."""
    last = (read_json(directory.supervision) or {}).get("observation", {})
    if driver is None or last.get("driver") != driver.name:
        return None
    if (heard := last.get("heard")) is not None:
        return LastHeard(**heard)
    if not last.get("state") or not last.get("at"):
        return None
    return LastHeard(
        at=float(last["at"]),
        state=str(last["state"]),
        lag=last.get("lag"),
        last_commit_at=last.get("last_commit_at"),
    )


def last_published(spec: ApplicationSpec) -> LastHeard | None:
    """What the newest driver of an application has published; ``None`` where nothing was, or no broker answers.

    Args:
        spec: of the application.
    """
    # Only where it is needed: it loads a client of the broker, and every page and DAG imports this module.
    from millrace.driver.status_topic import read_statuses

    try:
        config = spec.streams_config()
        published = read_statuses(
            config.bootstrap_servers, client_settings=config.client_settings("admin."), timeout_s=_PUBLISHED_LIMIT_S
        ).get(config.application_id)
    except MillraceError as error:
        log.info("the status topic is not read", application=spec.name, problem=error.message)
        return None
    return None if published is None else LastHeard.of(published)


def last_words(heard: LastHeard, now: float) -> str:
    """For people: ``last heard 8 s ago: RUNNING, lag 0, last commit 9 s ago``."""
    lag = "" if heard.lag is None else f", lag {heard.lag}"
    committed = "" if heard.last_commit_at is None else f", last commit {now - heard.last_commit_at:.0f} s ago"
    return f"last heard {now - heard.at:.0f} s ago: {heard.state or 'unknown'}{lag}{committed}"
