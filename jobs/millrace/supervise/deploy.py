"""Deploy: bring up what an application's specification says, or change what runs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers import launcher_of_kind
from millrace.install.locks import application_lock
from millrace.install.record import DesiredState, JobRecord, write_record
from millrace.install.spec import RunState, SpecFile, UpgradeMode
from millrace.launch.changes import Changes, changes_since_launch
from millrace.launch.driver import adopt_unrecorded_driver, end_driver, launch_driver, stop_limits
from millrace.launch.preflight import preflight
from millrace.operations.action import Action
from millrace.operations.journal import refuse_held
from millrace.operations.outcome import Outcome
from millrace.operations.topics import create_topics, missing_topics
from millrace.supervise.upgrade import (
    UpgradePlan,
    is_being_upgraded_to,
    is_upgrade_to,
    plan_upgrade,
    resume_upgrade,
    upgrade,
    wait_for_running_operation,
)


def deploy(
    application: Application,
    *,
    owner: str = "",
    reason: str = "deployed",
    within: str = "",
    upgrade_mode: UpgradeMode | None = None,
    rollback_on_failure: bool | None = None,
    ready_timeout_s: float | None = None,
    skip_rejected: bool = False,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Starts the application, or changes it to its new specification or code; does nothing if that is what runs.

    What was launched is known with its code: the sources of its module and of what that imports, outside of
    ``site-packages``, the lock file of its environment, and the versions that are installed there
    (:mod:`millrace.launch.launched_code`). A difference is a change as one of the specification is, and is named in the
    steps: keys, nodes, files, packages.

    The order is: validate the specification, create its topics, preflight, stop what runs with an older one, write
    the record, launch. Nothing is stopped before everything that can be checked has been. It returns as soon as the
    driver's process lives; :func:`millrace.supervise.wait_until_ready` waits for the rest.

    A changed specification with a savepoint, with stores to be given up, or with a way back is a multi-step operation
    (:mod:`millrace.supervise.upgrade`). With a way back it waits until the application is healthy. One whose process
    was killed is resumed here, where the specification is still the same; one that another process executes,
    supervision for example, is waited for.

    Args:
        application: which.
        owner: ``run_id/try_number`` of a task that will supervise it; empty leaves the owner as it is.
        reason: for the record and the journal.
        within: id of the multi-step operation of which this is a part.
        upgrade_mode: what a changed specification does with the state; by default what it says itself.
        rollback_on_failure: whether the last good specification is launched again where the new one is not healthy in
            time; by default what the new one says itself.
        ready_timeout_s: longest time until it is healthy, where that is waited for; by default the readiness limit of
            the specification.
        skip_rejected: take the specification that was launched last where the one in ``config/apps`` was rolled back.
        force: launch it again although nothing differs.
        dry_run: make the checks and return the plan.
        progress: takes lines that say how far a multi-step operation is.

    Returns:
        The action ``START``, ``UPGRADE``, ``NOTHING``, or one of :func:`millrace.supervise.upgrade.upgrade`, and its
        steps.

    Raises:
        ConfigurationError: the specification is invalid. What runs goes on.
        PreflightError: a check failed; all that failed are named. What runs goes on.
        OperationError: another operation holds the lock for too long or has not ended, or the driver could not be
            started or ended.
    """
    spec = application.desired.file
    directory = application.directory
    if skip_rejected and (record := application.record) is not None and record.rejected_hash == spec.hash:
        spec = application.launched.file
    launcher_of_kind(spec.spec.launcher.kind).plan(spec.spec, directory)
    if spec.spec.state is RunState.SUSPENDED:
        raise OperationError(
            f"The specification of {application} says suspended.",
            remedy=f"set `state: running` in {application.spec_path}",
        )
    if not dry_run and is_upgrade_to(directory, spec):
        done = _another_did_it(application, spec, progress) or resume_upgrade(application, progress=progress)
        if done is not None:
            return replace(done, operation="deploy")
    try:
        return _change(
            application,
            spec,
            owner=owner,
            reason=reason,
            within=within,
            upgrade_mode=upgrade_mode or spec.spec.upgrade_mode,
            rolls_back=spec.spec.rollback_on_failure if rollback_on_failure is None else rollback_on_failure,
            ready_timeout_s=ready_timeout_s,
            force=force,
            dry_run=dry_run,
            progress=progress,
        )
    except OperationError:
        # Supervision, for example, was a moment earlier.
        done = None if dry_run else _another_did_it(application, spec, progress)
        if done is None:
            raise
        return done


def _another_did_it(application: Application, spec: SpecFile, progress: Callable[[str], None]) -> Outcome | None:
    """Waits for a living process that goes to the same specification; what came of it, if that is what there was."""
    directory = application.directory
    if not is_being_upgraded_to(directory, spec):
        return None
    progress(f"another process goes to specification {spec.hash}: waiting for its end")
    wait_for_running_operation(directory)
    record = application.record
    if record is not None and record.rejected_hash == spec.hash:
        text = f"another process went to specification {spec.hash}, which was not healthy in time, and back"
        return Outcome.observed(application, "deploy", Action.ROLLED_BACK, text)
    if record is not None and record.spec_hash == spec.hash and not is_upgrade_to(directory, spec):
        return Outcome.observed(application, "deploy", Action.NOTHING, "another process has gone to this specification")
    return None


def _change(
    application: Application,
    spec: SpecFile,
    *,
    owner: str,
    reason: str,
    within: str,
    upgrade_mode: UpgradeMode,
    rolls_back: bool,
    ready_timeout_s: float | None,
    force: bool,
    dry_run: bool,
    progress: Callable[[str], None],
) -> Outcome:
    directory = application.directory
    with application_lock(directory):
        refuse_held([directory], what="deploy", within=within)
        known = application.record
        record = known or JobRecord(application=application.name, desired=DesiredState.STOPPED)
        if known is not None and not dry_run:
            record = adopt_unrecorded_driver(directory, record, operation="deploy")
        changes = changes_since_launch(application, spec)
        is_same_changed = force or bool(changes.code)
        action = _action(directory, record, spec, is_same_changed=is_same_changed)
        in_steps = plan_upgrade(
            application,
            record,
            spec,
            mode=upgrade_mode,
            rolls_back=rolls_back,
            owner=owner,
            ready_timeout_s=ready_timeout_s,
            is_same_changed=is_same_changed,
        )
        if dry_run:
            return _plan(application, record, spec, changes, action=action, in_steps=in_steps)
        record = record.with_changes(owner=owner or record.owner)
        if action is Action.NOTHING:
            write_record(directory, record.with_changes(desired=DesiredState.RUNNING, restarts=0, stop_cause=None))
            return Outcome.observed(application, "deploy", action, _runs_already(changes))
        append_journal(directory, "deploy", "differs", lines=list(changes.lines()))
        steps = [*changes.lines(), *_way_back(spec, changes, rolls_back=rolls_back)]
        steps += [f"created topic {topic}" for topic in create_topics(spec.spec)]
        report = preflight(spec.spec, discards_state=in_steps is not None and in_steps.discards_state)
        append_journal(directory, "deploy", "preflight", checks=report.summary())
        report.raise_if_failed()
        steps += report.lines()
        if in_steps is None:
            if record.driver is not None:
                steps += end_driver(directory, record.driver, limits=stop_limits(directory), operation="deploy")
            launched = launch_driver(
                directory, spec, record, operation="deploy", restarts=0, reason=reason, within=within
            )
            assert launched.driver is not None
            steps.append(f"launched {launched.driver.name}")
            return Outcome.observed(application, "deploy", action, reason, steps=tuple(steps))
    # The steps take the lock themselves, each for as long as it needs it.
    outcome = upgrade(application, in_steps, reason=reason, progress=progress)
    return replace(outcome, operation="deploy", steps=(*steps, *outcome.steps))


def _action(directory: ApplicationDirectory, record: JobRecord, spec: SpecFile, *, is_same_changed: bool) -> Action:
    if not record.is_driver_alive(directory):
        return Action.START
    return Action.NOTHING if record.spec_hash == spec.hash and not is_same_changed else Action.UPGRADE


def _way_back(spec: SpecFile, changes: Changes, *, rolls_back: bool) -> tuple[str, ...]:
    if not rolls_back or not changes.code:
        return ()
    if changes.specification:
        return ("a rollback would launch the last good specification with the code as it is then: code is not kept",)
    return (f"there is no way back: of {spec.spec.name} only the code differs, and code is not kept",)


def _runs_already(changes: Changes) -> str:
    if not changes.code_is_known:
        return (
            "it runs already with this specification; with which code is not known, as an earlier version of Millrace "
            "launched it: --force launches it again"
        )
    return "it runs already with this specification and this code"


def _plan(
    application: Application,
    record: JobRecord,
    spec: SpecFile,
    changes: Changes,
    *,
    action: Action,
    in_steps: UpgradePlan | None,
) -> Outcome:
    if action is Action.NOTHING:
        return Outcome.observed(application, "deploy", action, _runs_already(changes), dry_run=True)
    report = preflight(spec.spec, discards_state=in_steps is not None and in_steps.discards_state)
    steps = [*changes.lines()]
    steps += [f"create topic {topic}" for topic in missing_topics(spec.spec)]
    steps += report.lines()
    if in_steps is not None:
        steps += upgrade(application, in_steps, reason="", dry_run=True).steps
    else:
        if record.driver is not None and record.is_driver_alive(application.directory):
            steps.append(f"stop {record.driver.name}")
        command = launcher_of_kind(spec.spec.launcher.kind).plan(spec.spec, application.directory).command
        steps.append("launch " + " ".join(command))
    text = "nothing is in the way" if report.ok else f"{len(report.failed)} checks fail"
    return Outcome.observed(application, "deploy", action, text, steps=tuple(steps), dry_run=True)
