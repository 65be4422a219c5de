"""Deploy: bring up what an application's specification says, or change what runs to it."""

from __future__ import annotations

import time
from collections.abc import Callable

from millrace.errors import OperationError
from millrace.ops.driver import adopt_unrecorded_driver, end_driver, end_of_log, launch_driver, stop_limits
from millrace.ops.files import append_journal, application_lock
from millrace.ops.home import Home
from millrace.ops.launchers import launcher_of_kind
from millrace.ops.observe import Observation, Verdict, observe
from millrace.ops.operations.journal import refuse_held
from millrace.ops.outcome import Outcome
from millrace.ops.preflight import preflight
from millrace.ops.record import DesiredState, JobRecord, read_record, write_record
from millrace.ops.spec import RunState, SpecFile, load_spec_file
from millrace.ops.topics import create_topics, missing_topics

_READY_POLL_S = 0.5


def deploy(
    home: Home,
    application: str,
    *,
    owner: str = "",
    reason: str = "deployed",
    within: str = "",
    dry_run: bool = False,
) -> Outcome:
    """Start the application, or change the running one to its new specification; does nothing if that is what runs.

    The order is: validate the specification, create its topics, preflight, stop what runs with an older one, write
    the record, launch. Nothing is stopped before everything that can be checked has been. It returns as soon as the
    driver's process lives; :func:`wait_until_ready` waits for the rest.

    Args:
        home: the installation.
        application: its name.
        owner: ``run_id/try_number`` of a task that will supervise it; empty leaves the owner as it is.
        reason: for the record and the journal.
        within: id of the operation in steps of which this is a part.
        dry_run: make the checks and return the plan.

    Returns:
        The action ``start``, ``upgrade``, ``nothing`` or ``suspend``, and its steps.

    Raises:
        ConfigurationError: the specification is invalid. What runs goes on.
        PreflightError: a check failed; all that failed are named. What runs goes on.
        OperationError: another operation holds the lock for too long or has not ended, or the driver could not be
            started or ended.
    """
    spec = load_spec_file(home.spec_path(application))
    launcher_of_kind(spec.spec.launcher.kind).plan(spec.spec, home.application(application))
    if spec.spec.state is RunState.SUSPENDED:
        raise OperationError(
            f"The specification of {application} says suspended.",
            remedy=f"set `state: running` in {home.spec_path(application)}",
        )
    directory = home.application(application)
    with application_lock(directory):
        refuse_held([directory], what="deploy", within=within)
        known = read_record(directory)
        record = known or JobRecord(application=application, desired=DesiredState.STOPPED)
        if known is not None and not dry_run:
            record = adopt_unrecorded_driver(directory, record, operation="deploy")
        action = _action(record, spec)
        if dry_run:
            return _plan(home, application, record, spec, action)
        record = record.with_changes(owner=owner or record.owner)
        if action == "nothing":
            write_record(directory, record.with_changes(desired=DesiredState.RUNNING, restarts=0, stop_cause=None))
            return _outcome(home, application, action, "it runs already with this specification", ())
        steps = [f"created topic {topic}" for topic in create_topics(spec.spec)]
        report = preflight(spec.spec)
        append_journal(directory, "deploy", "preflight", checks=report.summary())
        report.raise_if_failed()
        steps += report.lines()
        if record.process is not None:
            steps += end_driver(directory, record.process, limits=stop_limits(directory), operation="deploy")
        launched = launch_driver(directory, spec, record, operation="deploy", restarts=0, reason=reason, within=within)
        assert launched.process is not None
        steps.append(f"launched process {launched.process.pid}")
    return _outcome(home, application, action, reason, tuple(steps))


def _action(record: JobRecord, spec: SpecFile) -> str:
    if not record.is_process_alive():
        return "start"
    return "nothing" if record.spec_hash == spec.hash else "upgrade"


def _plan(home: Home, application: str, record: JobRecord, spec: SpecFile, action: str) -> Outcome:
    if action == "nothing":
        return _outcome(home, application, action, "it runs already with this specification", (), dry_run=True)
    report = preflight(spec.spec)
    steps = [f"create topic {topic}" for topic in missing_topics(spec.spec)]
    steps += report.lines()
    if record.is_process_alive() and record.process is not None:
        steps.append(f"stop process {record.process.pid}")
    command = launcher_of_kind(spec.spec.launcher.kind).plan(spec.spec, home.application(application)).command
    steps.append("launch " + " ".join(command))
    text = "nothing is in the way" if report.ok else f"{len(report.failed)} checks fail"
    return _outcome(home, application, action, text, tuple(steps), dry_run=True)


def _outcome(
    home: Home, application: str, action: str, text: str, steps: tuple[str, ...], *, dry_run: bool = False
) -> Outcome:
    return Outcome(
        application=application,
        operation="deploy",
        action=action,
        text=text,
        dry_run=dry_run,
        steps=steps,
        observation=observe(home, application),
    )


def wait_until_ready(
    home: Home,
    application: str,
    *,
    timeout_s: float | None = None,
    on_look: Callable[[Observation], None] = lambda _: None,
) -> Observation:
    """Wait until the application processes what arrives.

    Args:
        home: the installation.
        application: its name.
        timeout_s: longest wait, seconds; by default the readiness limit of its specification.
        on_look: called with each look, for example to show how far a restoration is.

    Raises:
        OperationError: the driver died, became unhealthy, was stopped, or was not ready in time; the end of its log
            is in the message.
    """
    directory = home.application(application)
    if timeout_s is None:
        timeout_s = load_spec_file(directory.spec).spec.health.readiness_timeout_s
    deadline = time.monotonic() + timeout_s
    while True:
        observation = observe(home, application)
        on_look(observation)
        if observation.verdict is Verdict.HEALTHY:
            return observation
        late = time.monotonic() >= deadline
        if late or observation.verdict is not Verdict.WAITING:
            when = f"{timeout_s:g} s after its start" if late else "after its start"
            raise OperationError(
                f"{application} is not ready {when}: {observation.reason}, {observation.text}. "
                f"The end of its log: {end_of_log(directory)}",
                remedy=f"read {directory.log}",
            )
        time.sleep(_READY_POLL_S)
