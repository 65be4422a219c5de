"""Waiting until an application processes what arrives; the specification under which it does is a good one."""

from __future__ import annotations

import time
from collections.abc import Callable

from millrace.errors import OperationError
from millrace.files import write_atomically
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.home import ApplicationDirectory
from millrace.install.locks import application_lock
from millrace.install.record import read_record
from millrace.install.spec import SpecFile, load_spec_file
from millrace.launch.ending import end_of_log
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.launch.observe import observe

_READY_POLL_S = 0.5


def wait_until_ready(
    application: Application,
    *,
    timeout_s: float | None = None,
    on_probe: Callable[[Observation], None] = lambda _: None,
) -> Observation:
    """Waits until the application processes what arrives.

    Args:
        application: which.
        timeout_s: longest wait, seconds; by default the readiness limit of its specification.
        on_probe: called with each probe, for example to show how far a restoration is.

    Raises:
        OperationError: the driver died, became unhealthy, was stopped, or was not ready in time; the message is what
            the driver said of it, or else has the end of its log.
    """
    directory = application.directory
    if timeout_s is None:
        timeout_s = application.launched.spec.health.readiness_timeout_s
    deadline = time.monotonic() + timeout_s
    while True:
        observation = observe(application)
        on_probe(observation)
        if is_proven(observation):
            with application_lock(directory):
                mark_good(directory)
            return observation
        late = time.monotonic() >= deadline
        if late or observation.verdict not in {Verdict.WAITING, Verdict.STALLED, Verdict.HEALTHY}:
            when = f"{timeout_s:g} s after its start" if late else "after its start"
            raise failure_of_start(directory, observation, when=when)
        time.sleep(_READY_POLL_S)


def failure_of_start(directory: ApplicationDirectory, observation: Observation, *, when: str) -> OperationError:
    """Returns the error for an application that has not become ready: the driver's own words, where it has said why.

    Args:
        directory: the application's directory.
        observation: the last probe of it.
        when: seconds after its start, in words.
    """
    happened = "failed" if observation.reason is Reason.ENDED_IN_ERROR else "is not ready"
    return OperationError(
        f"{directory.application} {happened} {when}: {cause_of_failure(directory, observation)}",
        remedy=observation.remedy or f"read {directory.log}",
    )


def cause_of_failure(directory: ApplicationDirectory, observation: Observation) -> str:
    """Returns why an application is not ready: what its driver said, or what is missing and the end of its log."""
    if observation.reason is Reason.ENDED_IN_ERROR:
        return observation.text.rstrip(".") + "."
    if observation.verdict is Verdict.DEAD:
        return observation.text
    return f"{why_not_proven(observation)}. The end of its log: {end_of_log(directory)}"


def is_proven(observation: Observation) -> bool:
    """Returns whether an application is healthy and has processed something, or has nothing to process.

    One whose queries have only just begun is healthy before the first batch of one of them fails. So each must have
    processed something, or have nothing to process. One that waits behind a transaction of another process has done
    what it can.
    """
    works = observation.verdict is Verdict.HEALTHY or observation.reason is Reason.HELD_BACK
    return works and (not observation.untried or observation.reason is Reason.PAUSED)


def why_not_proven(observation: Observation) -> str:
    """Returns what is missing for it to be ready, for people."""
    if observation.verdict is not Verdict.HEALTHY and observation.reason is not Reason.HELD_BACK:
        return f"{observation.reason}, {observation.text}"
    return f"sub-topologies {', '.join(map(str, observation.untried))} have input and have processed nothing yet"


def mark_good(directory: ApplicationDirectory) -> None:
    """Keeps the specification of the running driver, which is proven, as the last good one.

    The one before it becomes the previous good one. The caller holds the application's lock. Safe to repeat; a kill in
    between at worst leaves the same specification in both places, which the next good one corrects.
    """
    record = read_record(directory)
    launched = load_spec_file(directory.spec)
    if record is None or record.spec_hash != launched.hash:
        return  # another one is being launched
    # As SpecFile.save writes them, the same document has the same bytes.
    good = directory.last_good_spec.read_bytes() if directory.last_good_spec.exists() else None
    if good == directory.spec.read_bytes():
        return
    if good is not None:
        write_atomically(directory.previous_good_spec, good)
    launched.save(directory.last_good_spec)
    append_journal(directory, "health", "good", spec_hash=launched.hash)


def last_good(directory: ApplicationDirectory) -> SpecFile | None:
    """Returns the newest specification under which the application was healthy, if there is one.

    Raises:
        ConfigurationError: it is not valid any more, for example as a variable that it names is not set.
    """
    return load_spec_file(directory.last_good_spec) if directory.last_good_spec.exists() else None


def previous_good(directory: ApplicationDirectory) -> SpecFile | None:
    """Returns the specification that was good before the last good one, if there is one.

    Raises:
        ConfigurationError: it is not valid any more.
    """
    return load_spec_file(directory.previous_good_spec) if directory.previous_good_spec.exists() else None


def discard_previous_good(directory: ApplicationDirectory, spec_hash: str) -> None:
    """Makes sure that a specification that was left by a rollback is not the one that the next rollback goes to.

    The caller holds the application's lock.
    """
    previous = previous_good(directory)
    if previous is not None and previous.hash == spec_hash:
        directory.previous_good_spec.unlink()
