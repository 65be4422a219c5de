"""What the status topic tells of a driver that does not answer, and of one that has taken over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus
from millrace.driver.status_topic import StatusPublisher
from millrace.install.home import ApplicationDirectory
from millrace.install.spec import ApplicationSpec, SpecFile
from millrace.launch.control_client import Answer, AnswerKind
from millrace.launch.judge import Evidence
from millrace.launch.last_heard import LastHeard
from millrace.launch.observe import with_published
from millrace.launch.successor import successor_is_gone

Publish = Callable[..., ApplicationStatus]


@pytest.fixture
def spec(bootstrap_servers: str, unique: str) -> ApplicationSpec:
    return ApplicationSpec(name=unique, module="apps.nothing:build", config={"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def publish(bootstrap_servers: str, unique: str) -> Iterator[Publish]:
    """Publishes a status of the application."""
    with StatusPublisher(bootstrap_servers, unique, replication_factor=1) as publisher:
        publisher.open()

        def one(**changes: object) -> ApplicationStatus:
            fields: dict[str, object] = {
                "application_id": unique,
                "state": ApplicationState.RUNNING,
                "driver": DriverIdentity(host="other-host", pid=7, start_time=1),
                "driver_epoch": publisher.epoch,
                "started_at": time.time() - 60,
                **changes,
            }
            status = ApplicationStatus(**fields)  # type: ignore[arg-type]
            publisher.publish(status)
            return status

        yield one


def test_a_fenced_driver_is_started_again_only_when_its_successor_has_ended(
    spec: ApplicationSpec, publish: Publish
) -> None:
    assert successor_is_gone(spec), "nothing has ever published"
    publish()
    assert not successor_is_gone(spec)
    publish(state=ApplicationState.REBALANCING)
    assert not successor_is_gone(spec)
    publish(updated_at=time.time() - 2 * spec.health.no_answer_timeout_s)
    assert successor_is_gone(spec), "it does not live any more"
    publish(state=ApplicationState.NOT_RUNNING)
    assert successor_is_gone(spec)


def test_a_driver_that_does_not_answer_was_heard_of_last_in_the_status_topic(
    spec: ApplicationSpec, publish: Publish, tmp_path: Path
) -> None:
    evidence = Evidence(
        application=spec.name,
        directory=ApplicationDirectory(tmp_path),
        record=None,
        probe_result=None,
        spec=SpecFile(spec=spec, raw={}),
        spec_error="",
        unanswered_since=None,
        heard=LastHeard(at=10.0, state="REBALANCING"),
    )
    silent = Answer(kind=AnswerKind.NONE)
    assert with_published(evidence, silent).heard == evidence.heard, "nothing is published"
    status = publish(
        progress={0: SubTopologyStatus(last_commit_at=1_000.0)}, lag={"in": {0: 5}}, updated_at=time.time()
    )
    heard = with_published(evidence, silent).heard
    assert heard == LastHeard(at=status.updated_at, state="RUNNING", lag=5, last_commit_at=1_000.0)
    assert with_published(evidence, Answer(kind=AnswerKind.STATUS, status=status)) is evidence
