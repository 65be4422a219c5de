"""Reconcile: observe, validate, decide, write down, act, check. Safe to run at any time and as often as one likes."""

from __future__ import annotations

import time
from dataclasses import replace

import structlog

from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.locks import application_lock
from millrace.install.record import JobRecord, write_record
from millrace.install.spec import SpecFile
from millrace.launch.checks import Report
from millrace.launch.control_client import ask
from millrace.launch.driver import (
    UNRESPONSIVE,
    StopLimits,
    adopt_unrecorded_driver,
    end_driver,
    launch_driver,
    stop_limits,
)
from millrace.launch.judge import Evidence, judge
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.launch.observe import collect_evidence, observe, remember
from millrace.launch.preflight import preflight
from millrace.launch.successor import successor_is_gone
from millrace.operations.action import Action
from millrace.operations.journal import holding_operation
from millrace.operations.outcome import Outcome
from millrace.supervise.decide import Decision, decide
from millrace.supervise.deploy import deploy
from millrace.supervise.readiness import is_proven, mark_good
from millrace.supervise.upgrade import plan_upgrade, resume_upgrade

log = structlog.get_logger(__name__)

BLOCKED_WAIT_S = 15.0
"""Time until a start that the preflight refused is tried again: what is missing often comes back by itself."""

_STARTING = {Action.RESTART, Action.UPGRADE}
_DOES_NOT_ANSWER = {Reason.HUNG, Reason.NO_ANSWER, Reason.PROCESS_STOPPED}


def reconcile(application: Application, *, dry_run: bool = False) -> Outcome:
    """Brings the application one step nearer to its desired state.

    Holds the application's lock, so a supervising task and a scheduled reconcile that come at the same time do the
    work once: the second finds a healthy job and does nothing.

    Args:
        application: which.
        dry_run: only say what would be done.

    Returns:
        What was decided and done. ``GIVE_UP`` means that the restart limit is reached; ``BLOCKED`` that the preflight
        refused the start, which is tried again later. An invalid specification leaves the last good one running and
        is named in the text.

    Raises:
        OperationError: another operation holds the lock for too long, the record cannot be understood, or a process
            could not be started or ended.
    """
    directory = application.directory
    if application.record is None:
        return Outcome.observed(application, "reconcile", Action.NOTHING, "it was never deployed here", dry_run=dry_run)
    if not dry_run and (resumed := resume_upgrade(application)) is not None:
        return replace(resumed, operation="reconcile")
    reconciliation = _Reconciliation(application, dry_run=dry_run)
    with application_lock(directory):
        outcome = reconciliation.run()
    # The steps of an upgrade take the lock themselves.
    return outcome if outcome is not None else reconciliation.upgrade()


def reconcile_all(home: Home, *, dry_run: bool = False) -> list[Outcome]:
    """Reconciles every application that was deployed here; a failure of one does not affect the others.

    Returns:
        One outcome per application, ``FAILED`` for those whose reconcile raised.
    """
    outcomes = []
    for application in home.deployed():
        try:
            outcomes.append(reconcile(Application(home, application), dry_run=dry_run))
        except MillraceError as error:
            log.warning("reconcile failed", application=application, error=str(error))
            outcomes.append(
                Outcome(
                    application=application,
                    operation="reconcile",
                    action=Action.FAILED,
                    text=str(error),
                    dry_run=dry_run,
                )
            )
    return outcomes


class _Reconciliation:
    def __init__(self, application: Application, *, dry_run: bool) -> None:
        self.application = application
        self.directory: ApplicationDirectory = application.directory
        self.dry_run = dry_run

    def run(self) -> Outcome | None:
        """The whole loop, once; none where what was decided is a multi-step upgrade, which :meth:`upgrade` does."""
        record = self.application.record
        assert record is not None
        if not self.dry_run:
            adopt_unrecorded_driver(self.directory, record, operation="reconcile")
        evidence = collect_evidence(self.application)
        assert evidence.record is not None
        observation = self._judge(evidence)
        if is_proven(observation) and not self.dry_run:
            mark_good(self.directory)
        decision = self._decide(observation, evidence)
        if evidence.spec_error:
            decision = replace(
                decision, text=f"{decision.text}; the last good specification stays, as {evidence.spec_error}"
            )
        if evidence.code_note:
            started = "; what is started now is the code as it is now" if decision.action is Action.RESTART else ""
            decision = replace(decision, text=f"{decision.text}; {evidence.code_note}{started}")
        # Written before acting: if this process dies now, it can be seen what it was about to do.
        if not self.dry_run:
            remember(
                self.directory,
                observation,
                spec_error=evidence.spec_error,
                decision=f"{decision.action}: {decision.text}",
            )
        if self.dry_run or not decision.action.changes_something:
            return self._outcome(decision.action, decision.text, (), observation)
        append_journal(self.directory, "reconcile", decision.action.value, why=decision.text)
        return self._act(decision, observation, evidence.record, evidence.spec)

    def upgrade(self) -> Outcome:
        """Goes to the changed specification in steps, which take the application's lock themselves."""
        try:
            outcome = deploy(self.application, reason="its specification changed")
        except MillraceError as error:
            record = self.application.record
            assert record is not None
            if holding_operation(self.directory) is not None:
                raise
            # What runs goes on; the next try comes later, and not at every look.
            text = f"upgrade is blocked: {error}"
            with application_lock(self.directory):
                write_record(
                    self.directory, record.with_changes(last_reason=text, not_before=time.time() + BLOCKED_WAIT_S)
                )
            append_journal(self.directory, "reconcile", "blocked", why=text)
            return self._outcome(Action.BLOCKED, text, (), observe(self.application))
        return replace(outcome, operation="reconcile")

    def _decide(self, observation: Observation, evidence: Evidence) -> Decision:
        decision = decide(observation, evidence.record, evidence.spec, now=time.time())
        if decision.action in _STARTING and (holding := holding_operation(self.directory)) is not None:
            return Decision(action=Action.WAIT, text=f"{holding}; it is not started before that has ended")
        return decision

    def _judge(self, evidence: Evidence) -> Observation:
        answer = ask(evidence.probe_result) if evidence.probe_result is not None else None
        observation = judge(evidence, answer, now=time.time())
        if (
            observation.verdict is Verdict.FENCED
            and evidence.spec is not None
            and successor_is_gone(evidence.spec.spec)
        ):
            text = f"{observation.text} That one has ended since."
            return replace(observation, verdict=Verdict.DEAD, text=text, remedy="")
        return observation

    def _act(
        self, decision: Decision, observation: Observation, record: JobRecord, spec: SpecFile | None
    ) -> Outcome | None:
        if decision.action is Action.STOP:
            steps = self._end(record, stop_limits(self.directory))
            return self._outcome(decision.action, decision.text, steps, observe(self.application))
        assert spec is not None
        if decision.action is Action.UPGRADE and self._takes_steps(record, spec):
            return None
        report = preflight(spec.spec)
        if not report.ok:
            return self._blocked(decision, report, record, observation)
        unresponsive = observation.reason in _DOES_NOT_ANSWER
        steps = self._end(record, UNRESPONSIVE if unresponsive else stop_limits(self.directory))
        launched = launch_driver(
            self.directory, spec, record, operation="reconcile", restarts=decision.restarts, reason=decision.text
        )
        assert launched.driver is not None
        steps = (*steps, f"launched {launched.driver.name}")
        log.info("job started", application=self.application.name, driver=launched.driver.name, why=decision.text)
        return self._outcome(decision.action, decision.text, steps, observe(self.application))

    def _takes_steps(self, record: JobRecord, spec: SpecFile) -> bool:
        rolls_back = spec.spec.rollback_on_failure
        plan = plan_upgrade(
            self.application, record, spec, mode=spec.spec.upgrade_mode, rolls_back=rolls_back, owner=record.owner
        )
        return plan is not None

    def _blocked(self, decision: Decision, report: Report, record: JobRecord, observation: Observation) -> Outcome:
        why = "; ".join(f"{check.name}: {check.text}" for check in report.failed)
        text = f"{decision.action.value} is blocked by the preflight: {why}"
        write_record(self.directory, record.with_changes(last_reason=text, not_before=time.time() + BLOCKED_WAIT_S))
        append_journal(self.directory, "reconcile", "blocked", checks=report.summary())
        return self._outcome(Action.BLOCKED, text, report.lines(), observation)

    def _end(self, record: JobRecord, limits: StopLimits) -> tuple[str, ...]:
        if record.driver is None:
            return ()
        return end_driver(self.directory, record.driver, limits=limits, operation="reconcile")

    def _outcome(self, action: Action, text: str, steps: tuple[str, ...], observation: Observation) -> Outcome:
        return Outcome(
            application=self.application.name,
            operation="reconcile",
            action=action,
            text=text,
            dry_run=self.dry_run,
            steps=steps,
            observation=observation,
        )
