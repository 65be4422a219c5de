"""Recovery drills: kill the worker of a task of an application that nothing depends on, and measure its recovery."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping

from millrace.driver.status import ApplicationStatus
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import append_journal, append_line, now_text
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers import refuse_state_elsewhere
from millrace.install.launchers.session import session_members
from millrace.install.record import read_record
from millrace.install.which_spec import Use
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.launch.control_client import Answer, ask
from millrace.launch.observation import Verdict
from millrace.launch.observe import observe
from millrace.operations import unfinished_operation
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome
from millrace.processes import ProcessIdentity
from millrace.topology.layout import layouts_of_summary, task_numbers
from millrace.topology.topic_partition import TopicPartition

KIND = "worker"
_INPUT_LIMIT_S = 30.0
_POLL_S = 0.1


def recovery_drill(
    application: Application,
    *,
    task: str = "",
    timeout_s: float = 300.0,
    reason: str = "a drill was asked for",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Kill the worker process of a task with SIGKILL, and wait until the task commits again in another one.

    What is measured is the time from the kill to the first commit after it, as a user of the results would see it.
    Input must arrive meanwhile: that the task commits is waited for before anything is killed.

    Args:
        application: its name; its specification must say ``production: false``.
        task: name of the task, ``0_1``; by default one by chance, of those that run on this host.
        timeout_s: longest time until it commits again, seconds.
        reason: for the journal.
        dry_run: only say what would be killed.
        progress: takes lines that say how far it is.

    Returns:
        The action ``RECOVERED`` or ``NOT_RECOVERED``; ``results["drill"]`` is the line of ``drills.jsonl``.

    Raises:
        OperationError: the application is for production, is not healthy, has an operation that has not ended, has no
            such task on this host, or nothing arrives.
    """
    directory = application.directory
    _refuse_production(application)
    refuse_state_elsewhere(application.launched.spec, what="kill a worker of")
    if (unfinished := unfinished_operation(directory)) is not None:
        raise OperationError(
            f"Cannot drill {application}: {unfinished}.",
            remedy=f"resume it with `millrace operations resume {application}`",
        )
    observation = observe(application)
    if observation.verdict is not Verdict.HEALTHY:
        raise OperationError(
            f"{application} is not healthy before the drill: {observation.reason}, {observation.text}.",
            remedy="drill it when it is: what it recovers from would not be the drill",
        )
    status = _status(directory)
    name, worker = _victim(directory, status, task)
    text = f"kill worker {worker.pid}, which runs task {name}"
    if dry_run:
        return _outcome(application, Action.DRILL, text, dry_run=True)
    admin = application.admin()
    places = inputs_of(status, name)
    progress(f"waiting until task {name} commits")
    _wait_for_commit(admin, status.application_id, places, timeout_s=input_limit_s(status))
    # It may have moved to another worker meanwhile.
    name, worker = _victim(directory, _status(directory), name)
    append_journal(directory, "drill", "kill", task=name, pid=worker.pid, reason=reason)
    progress(f"killing worker {worker.pid}, which runs task {name}")
    killed_at = time.monotonic()
    worker.send_signal(signal.SIGKILL)
    worker.wait_until_gone(10.0)
    seconds = _recovery_s(
        directory,
        admin,
        status.application_id,
        places,
        task=name,
        worker=worker,
        killed_at=killed_at,
        timeout_s=timeout_s,
    )
    taken = time.monotonic() - killed_at if seconds is None else seconds
    line = {
        "finished_at": now_text(),
        "kind": KIND,
        "task": name,
        "seconds": round(taken, 3),
        "ok": seconds is not None,
    }
    append_line(directory.drills, line)
    append_journal(directory, "drill", "finished", **line)
    if seconds is None:
        text = (
            f"task {name} has not committed {taken:.1f} s after its worker {worker.pid} was killed. "
            f"What to do: see `millrace status {application}` and {directory.log}"
        )
        return _outcome(application, Action.NOT_RECOVERED, text, line=line)
    text = f"task {name} committed {seconds:.1f} s after its worker {worker.pid} was killed"
    return _outcome(application, Action.RECOVERED, text, line=line)


def inputs_of(status: ApplicationStatus, task: str) -> list[TopicPartition]:
    """The input partitions of a task that the status knows offsets of.

    Raises:
        OperationError: it knows none.
    """
    number, partition = task_numbers(task)
    parts = layouts_of_summary(status.topology_summary, status.application_id)
    read = {topic for part in parts if part.number == number for topic in part.inputs}
    places = [(topic, partition) for topic in sorted(read) if partition in status.offsets.get(topic, {})]
    if not places:
        raise OperationError(
            f"Nothing is known of the input of task {task} of {status.application_id}.",
            remedy="drill it when it has run for some seconds",
        )
    return places


def _refuse_production(application: Application) -> None:
    """One that was launched for production is not drilled, nor one that is to be for it from its next start on."""
    for use, where in ((Use.RUNNING, "what it was launched with"), (Use.NEXT_START, "its file")):
        if application.specification(use).spec.production:
            raise OperationError(
                f"{application} is for production, and is not drilled: {where} says so.",
                remedy=f"set `production: false` in {application.spec_path} if nothing depends on it, and deploy it",
            )


def _status(directory: ApplicationDirectory) -> ApplicationStatus:
    answer = _answer(directory)
    if answer is None or answer.status is None:
        why = answer.detail if answer is not None else "it is stopped"
        raise OperationError(
            f"{directory.application} does not say where its tasks run: {why}.",
            remedy="try again when it answers",
        )
    return answer.status


def _answer(directory: ApplicationDirectory) -> Answer | None:
    """What the driver says; none where there is none."""
    record = read_record(directory)
    return ask(record.driver.probe(directory)) if record is not None and record.driver is not None else None


def _victim(directory: ApplicationDirectory, status: ApplicationStatus, task: str) -> tuple[str, ProcessIdentity]:
    """A task, and the process of the driver's own session that runs it."""
    record = read_record(directory)
    assert record is not None
    assert record.process is not None
    members = {each.pid: each for each in session_members(record.process.pid, directory)}
    own = {record.process.pid, status.driver.pid, os.getpid()}
    here = {
        name: members[int(pid)]
        for name, (host, _, pid) in ((name, where.rpartition("/")) for name, where in status.task_hosts.items())
        if host == socket.gethostname() and int(pid) in members and int(pid) not in own
    }
    if not here or (task and task not in here):
        raise OperationError(
            f"{task or 'No task'} of {directory.application} runs in a worker that this installation started on this "
            f"host; there {_are(here)}.",
            remedy="name one of these, drill it on the host of its workers, or try again when it has run for a while",
        )
    name = task or random.choice(sorted(here))
    return name, here[name]


def _are(names: Collection[str]) -> str:
    return f"are {', '.join(sorted(names))}" if names else "are none"


def _offsets(admin: KafkaAdmin, group: str, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
    return {place: commit.offset for place, commit in committed_offsets(admin, group, list(places)).items()}


def _has_moved(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> bool:
    return any(offset > before.get(place, -1) for place, offset in now.items())


def input_limit_s(status: ApplicationStatus) -> float:
    """How long a commit of what arrives is waited for before a drill, seconds, beside the time between two commits."""
    return _INPUT_LIMIT_S + status.commit_interval_ms / 1000


def _wait_for_commit(admin: KafkaAdmin, group: str, places: Collection[TopicPartition], *, timeout_s: float) -> None:
    before, deadline = _offsets(admin, group, places), time.monotonic() + timeout_s
    while not _has_moved(before, _offsets(admin, group, places)):
        if time.monotonic() >= deadline:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in places)
            raise OperationError(
                f"Nothing was committed within {timeout_s:g} s for {names}, so that a recovery could not be seen. "
                "Nothing was killed.",
                remedy="drill it while input arrives",
            )
        time.sleep(_POLL_S)


def _recovery_s(
    directory: ApplicationDirectory,
    admin: KafkaAdmin,
    group: str,
    places: Collection[TopicPartition],
    *,
    task: str,
    worker: ProcessIdentity,
    killed_at: float,
    timeout_s: float,
) -> float | None:
    """Seconds from the kill to the first commit of another worker; ``None`` where there was none in time.

    What the killed one had decided to commit may still show once it is gone, so another worker must have the task.
    """
    before = _offsets(admin, group, places)
    moved_at: float | None = None
    while (now := time.monotonic()) - killed_at < timeout_s:
        if moved_at is None and _has_moved(before, _offsets(admin, group, places)):
            moved_at = now
        answer = _answer(directory)
        where = answer.status.task_hosts.get(task, "") if answer is not None and answer.status is not None else ""
        if moved_at is not None and where and where != f"{socket.gethostname()}/{worker.pid}":
            return moved_at - killed_at
        time.sleep(_POLL_S)
    return None


def _outcome(
    application: Application,
    action: Action,
    text: str,
    *,
    dry_run: bool = False,
    line: Mapping[str, object] | None = None,
) -> Outcome:
    return Outcome(
        application=application.name,
        operation="recovery drill",
        action=action,
        text=text,
        dry_run=dry_run,
        results={} if line is None else {"drill": line},
    )
