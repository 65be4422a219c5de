"""The trigger of sensors: it polls an application until a condition holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace_airflow.conditions import Condition
from millrace_airflow.triggers.polling import LEAST_DEFERRAL_S, make_client, probe_and_judge


class ConditionTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires once a condition has held for long enough.

    Nothing is kept that another triggerer could miss, but for how long the condition has held: that begins again.

    Args:
        home: directory of the installation.
        specs: directory of the specifications.
        application: name of the application.
        condition: what :meth:`millrace_airflow.conditions.Condition.serialize` gave.
        poll_interval_s: time between two probes, seconds.
        least_deferral_s: does not fire before so many seconds.
    """

    def __init__(
        self,
        *,
        home: str,
        specs: str,
        application: str,
        condition: dict[str, Any],
        poll_interval_s: float,
        least_deferral_s: float = LEAST_DEFERRAL_S,
    ) -> None:
        super().__init__()
        self.home = home
        self.specs = specs
        self.application = application
        self.condition = condition
        self.poll_interval_s = poll_interval_s
        self.least_deferral_s = least_deferral_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments."""
        return (
            "millrace_airflow.triggers.condition.ConditionTrigger",
            {
                "home": self.home,
                "specs": self.specs,
                "application": self.application,
                "condition": self.condition,
                "poll_interval_s": self.poll_interval_s,
                "least_deferral_s": self.least_deferral_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until it holds, then fire once."""
        home = Home(root=Path(self.home), specs=Path(self.specs))
        condition = Condition(**self.condition)
        client = await make_client()
        started = time.monotonic()
        held_since: float | None = None
        told = ""
        try:
            while True:
                try:
                    _, observation = await probe_and_judge(Application(home, self.application), client)
                    why_not = condition.why_not(observation)
                except MillraceError as error:
                    # A record that cannot be read now may be readable at the next look; the sensor has a timeout.
                    observation, why_not = None, str(error)
                if why_not != told:
                    self.log.info("%s: %s", self.application, why_not or "it holds")
                    told = why_not
                held_since = None if why_not else held_since or time.monotonic()
                if (
                    observation is not None
                    and held_since is not None
                    and time.monotonic() - held_since >= condition.for_s
                    and time.monotonic() - started >= self.least_deferral_s
                ):
                    yield TriggerEvent(observation.summary())
                    return
                await asyncio.sleep(self.poll_interval_s)
        finally:
            await client.aclose()
