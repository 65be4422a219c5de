"""The health checks of the containers look for words that a real Airflow says."""

from __future__ import annotations

import re

import httpx
import pytest

from demo.airflow_service import HEALTH_PATH
from tests.unit.deployment.compose import services
from tests.waiting import PATIENCE, wait_for

from .conftest import Platform


@pytest.mark.parametrize("part", ["triggerer", "dag-processor"])
def test_what_a_container_s_health_check_looks_for_is_there(platform: Platform, part: str) -> None:
    check = services()[f"airflow-{part}"]["healthcheck"]["test"][1]
    (words,) = re.findall(r"grep -q '([^']+)'", check)
    address = f"{platform.airflow.address}{HEALTH_PATH}"
    wait_for(lambda: words in httpx.get(address, timeout=60 * PATIENCE, trust_env=False).text, limit_s=90)
