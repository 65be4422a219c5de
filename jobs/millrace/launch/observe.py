"""Observe: look at the record and the process of an application's job, ask its control plane, judge, and remember.

Looking, asking and judging (:mod:`millrace.launch.judge`) are apart, so that a trigger can ask without blocking.
"""

from __future__ import annotations

import time
from dataclasses import replace

from millrace.install.application import Application
from millrace.install.files import now_text, read_json, write_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import DriverInstance, Presence
from millrace.install.record import DesiredState
from millrace.launch.changes import code_note
from millrace.launch.control_client import Answer, AnswerKind, ask
from millrace.launch.ending import last_line
from millrace.launch.judge import Evidence, judge
from millrace.launch.last_heard import last_published, remembered
from millrace.launch.observation import Observation, Verdict
from millrace.launch.scrape_target import update_scrape_target


def collect_evidence(application: Application) -> Evidence:
    """Read the application's files and look at its driver; takes milliseconds, or seconds where a cluster is asked.

    Raises:
        OperationError: the record cannot be understood.
    """
    directory = application.directory
    record = application.record
    driver = record.driver if record else None
    seen = application.specifications.seen()
    following, launched = seen.following, seen.running
    probe_result = driver.probe(directory) if driver is not None else None
    is_gone = probe_result is not None and probe_result.presence not in {Presence.ALIVE, Presence.UNKNOWN}
    is_gone = is_gone and record is not None and record.desired is DesiredState.RUNNING
    return Evidence(
        application=application.name,
        directory=directory,
        record=record,
        probe_result=probe_result,
        spec=following.file if following else None,
        spec_error=seen.problem,
        launched=launched.file if launched else None,
        last_words=last_line(directory) if is_gone else "",
        note=launched.note if launched else "",
        code_note=code_note(directory),
        unanswered_since=_unanswered_since(directory, driver),
        heard=remembered(directory, driver),
    )


def _unanswered_since(directory: ApplicationDirectory, driver: DriverInstance | None) -> float | None:
    last = (read_json(directory.supervision) or {}).get("observation", {})
    since = last.get("unanswered_since")
    same_driver = driver is not None and last.get("driver") == driver.name
    return float(since) if same_driver and isinstance(since, int | float) else None


def observe(application: Application) -> Observation:
    """Look, ask and judge; remembers since when the driver has not answered. Takes at most some seconds.

    Raises:
        OperationError: the record cannot be understood.
    """
    evidence = collect_evidence(application)
    answer = ask(evidence.probe_result) if evidence.probe_result is not None else None
    observation = judge(with_published(evidence, answer), answer, now=time.time())
    if evidence.record is not None:
        remember(evidence.directory, observation, spec_error=evidence.spec_error)
    return observation


def with_published(evidence: Evidence, answer: Answer | None) -> Evidence:
    """The evidence, with what the driver published last where it does not answer: the status topic outlives it.

    A broker that cannot be asked leaves what the last probe had heard. Takes at most some seconds.
    """
    judged_by = evidence.judged_by
    if answer is None or answer.kind is not AnswerKind.NONE or judged_by is None:
        return evidence
    published = last_published(judged_by.spec)
    if published is None or (evidence.heard is not None and evidence.heard.at >= published.at):
        return evidence
    return replace(evidence, heard=published)


def remember(
    directory: ApplicationDirectory,
    observation: Observation,
    *,
    spec_error: str = "",
    decision: str = "",
    watcher: str = "",
) -> None:
    """Write ``supervision.json``, and where Prometheus finds the driver.

    Args:
        directory: the application's directory.
        observation: what was seen.
        spec_error: what is wrong with the desired specification.
        decision: what was decided on it.
        watcher: ``run_id/try_number`` of the supervising task whose trigger looked; empty for anybody else.
    """
    written_at = now_text()
    # A probe by a person, or by an export, is none of a supervisor: it must not hide that there is none.
    supervised = written_at if decision or watcher else (read_json(directory.supervision) or {}).get("supervised_at")
    write_json(
        directory.supervision,
        {
            "written_at": written_at,
            "supervised_at": supervised,
            "watcher": watcher,
            "observation": observation.summary(),
            "decision": decision,
            "spec_error": spec_error,
        },
    )
    update_scrape_target(directory, observation.control, is_stopped=observation.verdict is Verdict.STOPPED)
