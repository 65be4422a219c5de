"""The probe of an application: its files, its process, and what its driver says.

It changes nothing and never raises.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import httpx
import structlog

from millrace.driver.status import ApplicationStatus
from millrace.errors import MillraceError
from millrace.insight.overview.history import Sample
from millrace.insight.overview.measurements import Measurements, measurements
from millrace.install.application import Application
from millrace.install.launchers.instance import Probe
from millrace.install.record import DesiredState
from millrace.launch.control_client import ANSWER_LIMIT_S, ask
from millrace.launch.judge import judge
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.launch.observe import collect_evidence, with_published
from millrace.tls import tls_context

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ApplicationProbe:
    """The result of one probe.

    Args:
        application: its name.
        at: when, seconds since the epoch.
        observation: how it is.
        status: what its driver said, where one answered.
        measured: its metrics, where they could be read.
        description: from its specification.
        dead_letter_topic: from its specification; empty where it has none.
        problem: what could not be read, or differs from what was launched; empty where everything could be read and
            nothing differs.
    """

    application: str
    at: float
    observation: Observation
    status: ApplicationStatus | None = None
    measured: Measurements | None = None
    description: str = ""
    dead_letter_topic: str = ""
    problem: str = ""

    def sample(self) -> Sample | None:
        """Returns the sample that the history keeps; none where no driver answered."""
        status, measured = self.status, self.measured or Measurements()
        if status is None:
            return None
        return Sample(
            at=self.at,
            driver=f"{status.driver.host}/{status.driver.pid}/{status.driver.start_time}",
            lag=status.total_lag,
            records=sum(each.records for each in status.progress.values()),
            read={topic: sum(offsets.values()) for topic, offsets in status.offsets.items()},
            written=dict(measured.produced),
            processed={number: each.records for number, each in status.progress.items()},
            transactions=dict(measured.transactions),
        )


def probe_application(application: Application, *, timeout_s: float = ANSWER_LIMIT_S) -> ApplicationProbe:
    """Looks at an application; takes milliseconds, or some seconds where its driver is slow.

    Args:
        application: which.
        timeout_s: limit of each of the three requests to its driver, seconds.
    """
    now = time.time()
    try:
        return _probe(application, timeout_s)
    except MillraceError as error:
        problem = str(error)
    except Exception as error:
        # The others must be shown whatever is wrong with this one; the entry says what.
        log.exception("an application could not be looked at", application=application.name)
        problem = f"{type(error).__name__}: {error}"
    return unknown(application.name, problem, at=now)


def unknown(application: str, problem: str, *, at: float) -> ApplicationProbe:
    """Returns a probe that saw nothing.

    Args:
        application: its name.
        problem: why.
        at: when, seconds since the epoch.
    """
    observation = Observation(
        application=application, verdict=Verdict.WAITING, reason=Reason.STATUS_UNREADABLE, text=problem, at=at
    )
    return ApplicationProbe(application=application, at=at, observation=observation, problem=problem)


def _probe(application: Application, timeout_s: float) -> ApplicationProbe:
    evidence = collect_evidence(application)
    stopping = evidence.record is not None and evidence.record.desired is DesiredState.STOPPED
    answer = measured = None
    problems = [evidence.spec_error, evidence.note, evidence.code_note]
    if evidence.probe_result is not None:
        answer = ask(evidence.probe_result, timeout_s=timeout_s)
        if answer is not None and answer.status is not None:
            measured, problem = _measure(evidence.probe_result, timeout_s)
            # A driver that ends closes its server while it is asked.
            problems.append("" if stopping else problem)
    now = time.time()
    observation = judge(with_published(evidence, answer), answer, now=now)
    spec = evidence.judged_by.spec if evidence.judged_by else None
    topic = str(spec.config.get("errors.dead.letter.queue.topic.name") or "") if spec else ""
    return ApplicationProbe(
        application=application.name,
        at=now,
        observation=observation,
        status=answer.status if answer else None,
        measured=measured,
        description=spec.description if spec else "",
        dead_letter_topic=topic,
        problem="; ".join(each for each in dict.fromkeys(problems) if each),
    )


def _measure(probe_result: Probe, timeout_s: float) -> tuple[Measurements | None, str]:
    assert probe_result.control is not None, "only drivers that have answered are measured"
    try:
        answer = httpx.get(
            f"{probe_result.control.address}/metrics", timeout=timeout_s, trust_env=False, verify=tls_context()
        )
        if not answer.is_success:
            return None, f"/metrics answered {answer.status_code}"
        return measurements(answer.text), ""
    except httpx.HTTPError as error:
        return None, f"/metrics did not answer: {type(error).__name__} {error}"
    except MillraceError as error:
        return None, str(error)
