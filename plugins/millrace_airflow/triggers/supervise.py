"""The trigger that watches a job: it polls, decides nothing by itself, and fires when something has to be done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import DesiredState, StopCause
from millrace.launch import Observation, Reason
from millrace.launch.driver import StopLimits
from millrace.launch.judge import Evidence
from millrace.launch.observe import remember
from millrace.operations import stop
from millrace.operations.action import Action
from millrace.supervise.decide import Decision, decide
from millrace_airflow.triggers.polling import LEAST_DEFERRAL_S, make_client, probe_and_judge

KILL_LIMITS = StopLimits(graceful_s=18.0, terminate_s=5.0, kill_s=3.0)
"""Together below Airflow's ``[triggerer] on_kill_timeout`` of 30 s."""

FENCED_CHECKPOINT_S = 30.0
"""While another installation's driver has taken over, the task looks so often whether that one still works."""


class EventKind(StrEnum):
    """Why the trigger fired."""

    ACT = "act"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    CHECKPOINT = "checkpoint"


class SuperviseTrigger(BaseTrigger):  # type: ignore[misc]
    """Looks at the record, the process, the health endpoint and the progress of one application's job.

    No state is kept that another triggerer could miss: after a restart of the triggerer the trigger goes on where it
    was, and the job does not notice. An unreadable answer never fires it.

    Args:
        home: directory of the installation.
        specs: directory of the specifications.
        application: name of the application.
        owner: ``run_id/try_number`` of the task that waits.
        checkpoint_s: fires after so many seconds although nothing is to be done, so that the task's timeout, which
            tells when no triggerer is there, starts again.
        least_deferral_s: does not fire before so many seconds.
    """

    def __init__(
        self,
        *,
        home: str,
        specs: str,
        application: str,
        owner: str,
        checkpoint_s: float,
        least_deferral_s: float = LEAST_DEFERRAL_S,
    ) -> None:
        super().__init__()
        self.home = home
        self.specs = specs
        self.application = application
        self.owner = owner
        self.checkpoint_s = checkpoint_s
        self.least_deferral_s = least_deferral_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments."""
        return (
            "millrace_airflow.triggers.supervise.SuperviseTrigger",
            {
                "home": self.home,
                "specs": self.specs,
                "application": self.application,
                "owner": self.owner,
                "checkpoint_s": self.checkpoint_s,
                "least_deferral_s": self.least_deferral_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until something has to be done, then fire once."""
        home = self._home()
        started = time.monotonic()
        told = ""
        client = await make_client()
        try:
            while True:
                evidence, observation = await probe_and_judge(Application(home, self.application), client)
                if observation.note != told:
                    told = observation.note
                    self.log.warning(
                        "%s: %s", self.application, told or "its specification and code are those launched"
                    )
                kind, decision = self._event(evidence, observation)
                await self._remember(evidence, observation, decision)
                # Only the task asks the broker whether the driver that took over still works.
                fenced = observation.reason is Reason.FENCED
                limit_s = min(self.checkpoint_s, FENCED_CHECKPOINT_S) if fenced else self.checkpoint_s
                if kind is None and time.monotonic() - started >= limit_s:
                    kind = EventKind.CHECKPOINT
                if kind is not None and time.monotonic() - started >= self.least_deferral_s:
                    self.log.info("%s: %s, %s", self.application, kind, decision.text)
                    yield TriggerEvent(
                        {"kind": kind.value, "text": decision.text[:1000], "observation": observation.summary()}
                    )
                    return
                interval = evidence.spec.spec.health.poll_interval_s if evidence.spec else 2.0
                await asyncio.sleep(interval)
        finally:
            await client.aclose()

    def _home(self) -> Home:
        return Home(root=Path(self.home), specs=Path(self.specs))

    def _event(self, evidence: Evidence, observation: Observation) -> tuple[EventKind | None, Decision]:
        decision = decide(observation, evidence.record, evidence.spec, now=time.time())
        record = evidence.record
        if record is None or record.owner != self.owner:
            return EventKind.SUPERSEDED, decision
        if observation.reason is Reason.STOPPED_AS_ASKED:
            return EventKind.STOPPED, decision
        # While a stop is under way its operation ends the process; there is nothing to do beside it.
        if record.desired is DesiredState.RUNNING and (
            decision.action.changes_something or decision.action is Action.GIVE_UP
        ):
            return EventKind.ACT, decision
        return None, decision

    async def _remember(self, evidence: Evidence, observation: Observation, decision: Decision) -> None:
        if evidence.record is None:
            return
        await asyncio.to_thread(
            remember,
            evidence.directory,
            observation,
            spec_error=evidence.spec_error,
            decision=f"{decision.action}: {decision.text}",
            watcher=self.owner,
        )

    async def on_kill(self) -> None:
        """A person marked the task failed or successful, or cleared it: stop the job if it is still this task's.

        After a clear the next try may have taken the job over already; then the record has another owner, and nothing
        is stopped. Not called when the triggerer stops or dies.
        """
        outcome = await asyncio.to_thread(
            stop,
            Application(self._home(), self.application),
            cause=StopCause.TASK_KILLED,
            reason=f"the supervising task {self.owner} was killed by a person",
            only_owner=self.owner,
            limits=KILL_LIMITS,
        )
        self.log.info("%s: %s, %s", self.application, outcome.action, outcome.text)
