"""Whether the driver that took over from ours works: as long as it may, ours is not started again by itself."""

from __future__ import annotations

import time

import structlog

from millrace.driver.health import HealthLimits, assess
from millrace.errors import MillraceError
from millrace.install.spec import ApplicationSpec

_LIMIT_S = 5.0

log = structlog.get_logger(__name__)


def successor_is_gone(spec: ApplicationSpec) -> bool:
    """Whether the status topic shows that no driver works for the application: none published lately, or it has ended.

    Args:
        spec: of the application.

    Returns:
        False also where the topic cannot be read: then nothing is known of it.
    """
    from millrace.driver.status_topic import read_statuses

    try:
        config = spec.streams_config()
        statuses = read_statuses(
            config.bootstrap_servers, client_settings=config.client_settings("admin."), timeout_s=_LIMIT_S
        )
    except MillraceError as error:
        log.warning("not known whether the newer driver works", application=spec.name, problem=error.message)
        return False
    status = statuses.get(config.application_id)
    limits = HealthLimits(
        heartbeat_s=spec.health.no_answer_timeout_s,
        progress_s=float("inf"),
        start_s=float("inf"),
    )
    return status is None or not assess(status, now=time.time(), limits=limits).alive
