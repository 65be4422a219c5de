"""A reset that is killed once it has stopped the application, or while it deletes savepoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.record import DesiredState, read_record
from millrace.kafka.admin import KafkaAdmin
from millrace.operations import resume
from millrace.operations.reset import ResetOptions, reset
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.savepoints.manifest import Manifest, SavepointState
from millrace.supervise import deploy
from tests.application import ROOT
from tests.integration.operations.resetting import Left, committed, create, killed_at, topics_of

FAKE_JOB = ROOT / "tests" / "airflow" / "fake_job.py"


def deployed(left: Left) -> None:
    """Its driver is a stand-in that can be asked to stop."""
    path = left.home.spec_path(left.application_id)
    document = yaml.safe_load(path.read_text())
    document |= {
        "launcher": {"command": ["{python}", str(FAKE_JOB), "{run_directory}"]},
        "preflight": {"enabled": False},
        "health": {"stop_timeout_s": 5},
    }
    path.write_text(yaml.safe_dump(document))
    deploy(Application(left.home, left.application_id))


@pytest.mark.kills
@pytest.mark.parametrize("point", ["reset-fence-begins", "reset-savepoints-begins", "reset-savepoints-ends"])
def test_a_reset_that_is_killed_once_it_has_stopped_the_application_goes_on_without_it(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str, point: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out")
    application = leave("app", "counting")
    name, home = application.application_id, application.home
    application.run()
    deployed(application)
    launched = read_record(home.application(name))
    assert launched is not None
    assert launched.process is not None
    savepoints = launched_repository(Application(home, name))
    savepoints.write(Manifest(name="before", application=name, state=SavepointState.COMPLETED, created_at=1.0))
    killed_at(point, home, unique, "reset", name, "--stop", "--delete-savepoints")
    stopped = read_record(home.application(name))
    assert stopped is not None
    assert stopped.desired is DesiredState.STOPPED
    assert not launched.process.is_alive()
    with pytest.raises(OperationError, match=f"Cannot deploy {name}: reset"):
        deploy(Application(home, name))
    resume(Application(home, name))
    assert savepoints.names() == []
    assert committed(application, admin) == {(f"{unique}-in", 0): 0}
    assert topics_of(admin, f"{name}-") == set()


def test_an_internal_topic_of_the_old_number_of_partitions_cannot_be_kept(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out")
    application = leave("app", "counting")
    name = application.application_id
    application.run()
    admin.add_partitions(f"{unique}-in", 2)
    before = topics_of(admin, f"{name}-")
    kept = f"{name}-by-user-repartition"
    options = ResetOptions(internal_topics=frozenset(before - {kept}))
    with pytest.raises(OperationError, match=f"{kept} has 1 partitions, and the next start needs 2"):
        reset(Application(application.home, name), options=options)
    assert topics_of(admin, f"{name}-") == before
    reset(Application(application.home, name))
    application.run()
    assert {topic.partitions for topic in admin.describe_topics(before).values()} == {2}
