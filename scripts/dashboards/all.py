"""All dashboards."""

from __future__ import annotations

from scripts.dashboards.airflow import AIRFLOW
from scripts.dashboards.application import APPLICATION
from scripts.dashboards.exactly_once import EXACTLY_ONCE
from scripts.dashboards.model import Dashboard
from scripts.dashboards.operations import OPERATIONS
from scripts.dashboards.platform import PLATFORM
from scripts.dashboards.recovery import RECOVERY
from scripts.dashboards.state_stores import STATE_STORES

DASHBOARDS: tuple[Dashboard, ...] = (
    PLATFORM,
    APPLICATION,
    EXACTLY_ONCE,
    RECOVERY,
    STATE_STORES,
    OPERATIONS,
    AIRFLOW,
)
