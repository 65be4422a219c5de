"""Reset against the real broker: what goes, what stays, what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from millrace.driver.lifecycle import ApplicationState
from millrace.errors import OperationError, PreflightError, StateDirectoryLockedError
from millrace.install.application import Application
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import live_members
from millrace.kafka.offsets import begin_offsets, committed_offsets
from millrace.operations import resume
from millrace.operations.reset import NamedCluster, ResetOptions, ShiftBy, ToOffset, ToOffsets, ToTime, reset
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.savepoints.manifest import Manifest, SavepointState
from millrace.state.directory import DirectoryLock
from millrace.task.signature import Signature
from tests.application import wait_until
from tests.integration.operations.resetting import Left, committed, create, killed_at_every_step, topics_of
from tests.records import Record, produce


@contextmanager
def consuming(bootstrap_servers: str, group: str, topic: str) -> Iterator[None]:
    """A member of a group, which commits nothing."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    admin = KafkaAdmin(bootstrap_servers)
    try:
        consumer.subscribe([topic])
        wait_until(
            lambda: consumer.poll(0.1) is None and live_members(admin, group).is_live, timeout_s=60, what="it joins"
        )
        yield
    finally:
        consumer.close()


def test_a_reset_deletes_the_application_s_own_topics_and_no_others(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    """Case R01."""
    create(admin, f"{unique}-in", f"{unique}-out", partitions=2)
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v", 5, partition=0)] * 3)
    applications = [leave(name, "counting") for name in ("my-app", "my-app-v1", "my-app-v2")]
    for each in applications:
        each.run({(f"{unique}-in", 0): 3})
    mine = applications[0]
    own = {f"{mine.application_id}-{name}" for name in ("counts-changelog", "users-changelog", "by-user-repartition")}
    before = topics_of(admin, unique)
    assert own < before
    assert Application(mine.home, mine.application_id).status() == mine.status

    plan = reset(Application(mine.home, mine.application_id), dry_run=True)
    assert topics_of(admin, unique) == before
    (deletion,) = [step for step in plan.steps if step.startswith("Delete")]
    assert deletion.endswith(f"creates again: {', '.join(sorted(own))}.")

    outcome = reset(Application(mine.home, mine.application_id))
    assert topics_of(admin, unique) == before - own
    assert committed(mine, admin) == {(f"{unique}-in", 0): 0, (f"{unique}-in", 1): 0}
    assert not mine.state.application(mine.application_id).exists()
    assert len(outcome.results["check"]["checks"]) == 5
    for other in applications[1:]:
        assert committed(other, admin)[f"{unique}-in", 0] == 3
        assert other.state.tasks(other.application_id)


def test_time_based_offsets_of_empty_partitions_and_of_those_that_end_before(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    """Case R03."""
    topic = f"{unique}-in"
    create(admin, topic, f"{unique}-out", partitions=3, retention_ms="-1")
    produce(
        admin.bootstrap_servers,
        topic,
        [Record(b"k", b"v", time, partition=0) for time in (100, 200, 300)] + [Record(b"k", b"v", 50, partition=2)],
    )
    application = leave("app", "copying")
    application.run()
    reset(Application(application.home, application.application_id), options=ResetOptions(to=ToTime(150)))
    assert committed(application, admin) == {(topic, 0): 1, (topic, 1): 0, (topic, 2): 1}


def test_the_topics_of_a_foreign_key_join_go_and_an_input_that_looks_internal_stays(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    """Case R02."""
    looks_internal = f"{unique}-fkapp-orders-changelog"
    create(admin, looks_internal, f"{unique}-users", f"{unique}-out")
    application = leave("fkapp", "joining")
    application.run()
    name = application.application_id
    before = topics_of(admin, f"{name}-")
    own = before - {looks_internal}
    assert {topic.removeprefix(f"{name}-") for topic in own} >= {
        "join1-subscription-registration-topic",
        "join1-subscription-response-topic",
        "join1-subscription-store-changelog",
    }
    with pytest.raises(OperationError, match=f"{looks_internal} is not an internal topic of {name}"):
        reset(Application(application.home, name), options=ResetOptions(internal_topics=frozenset({looks_internal})))
    reset(Application(application.home, name))
    assert topics_of(admin, f"{name}-") == {looks_internal}


def test_an_unknown_application_is_refused_and_the_known_ones_are_named(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    """Case R01: an id that is the beginning of another one is another application."""
    create(admin, f"{unique}-in", f"{unique}-out")
    application = leave("my-app", "copying")
    application.run()
    before = topics_of(admin, unique)
    with pytest.raises(OperationError, match=f"Nothing is known of application {unique}-my[:]"):
        reset(
            Application(application.home, f"{unique}-my"),
            cluster=NamedCluster(bootstrap_servers=admin.bootstrap_servers),
        )
    assert topics_of(admin, unique) == before


def test_without_a_specification_the_status_topic_knows_the_topology(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out", partitions=2)
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v", partition=1)] * 5)
    application = leave("app", "counting")
    name = application.application_id
    application.run({(f"{unique}-in", 1): 5})
    application.home.spec_path(name).unlink()
    for target, after in ((ShiftBy(-2), 3), (ToOffset(99), 5), (ToOffsets({(f"{unique}-in", 1): 2}), 2)):
        options = ResetOptions(to=target)
        reset(
            Application(application.home, name),
            options=options,
            cluster=NamedCluster(bootstrap_servers=admin.bootstrap_servers),
        )
        assert committed(application, admin)[f"{unique}-in", 1] == after
        assert topics_of(admin, f"{name}-") == set()


def test_what_runs_is_refused_and_nothing_is_touched(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out")
    application = leave("app", "counting")
    name = application.application_id
    application.run(state=ApplicationState.RUNNING)  # its driver is this process
    before = topics_of(admin, unique), committed(application, admin)
    with pytest.raises(OperationError, match=f"Cannot reset {name} while it runs: its driver is process {os.getpid()}"):
        reset(Application(application.home, name))
    application.run()
    lock = DirectoryLock(application.state.application(name))
    with pytest.raises(StateDirectoryLockedError):
        reset(Application(application.home, name))
    lock.release()
    with consuming(admin.bootstrap_servers, name, f"{unique}-in"):
        with pytest.raises(OperationError, match="its group has members"):
            reset(Application(application.home, name))
        assert (topics_of(admin, unique), committed(application, admin)) == before
        reset(Application(application.home, name), options=ResetOptions(force=True))
    assert topics_of(admin, f"{name}-") == set()


def test_a_topic_that_another_application_reads_is_not_deleted(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out")
    application, reader = leave("app", "counting"), leave("reader", "auditing")
    application.run()
    reader.run()
    with pytest.raises(OperationError, match=f"Application {unique}-reader uses topics .*counts-changelog"):
        reset(Application(application.home, application.application_id))


def test_a_kept_changelog_keeps_its_store_and_an_output_is_emptied_on_request(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out")
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v")] * 3)
    produce(admin.bootstrap_servers, f"{unique}-out", [Record(b"k", b"v")] * 4)
    application = leave("app", "counting")
    name = application.application_id
    application.run({(f"{unique}-in", 0): 3})
    produce(admin.bootstrap_servers, f"{name}-counts-changelog", [Record(b"k", b"\0" * 16)] * 2)
    options = ResetOptions(
        internal_topics=frozenset({f"{name}-users-changelog", f"{name}-by-user-repartition"}),
        output_topics=frozenset({f"{unique}-out"}),
    )
    reset(Application(application.home, name), options=options)
    assert topics_of(admin, f"{name}-") == {f"{name}-counts-changelog"}
    signature = Signature.of(committed_offsets(admin, name, [(f"{unique}-in", 0)]))
    assert signature is not None
    assert signature.changelogs == {"counts": 2}
    assert begin_offsets(admin, [(f"{unique}-out", 0)]) == {(f"{unique}-out", 0): 4}


def test_an_application_that_reads_a_pattern_is_reset_in_the_topics_that_it_matched(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in-eu", f"{unique}-in-us", f"{unique}-out")
    for name in ("eu", "us"):
        produce(admin.bootstrap_servers, f"{unique}-in-{name}", [Record(b"k", b"v", 5, partition=0)] * 3)
    application = leave("app", "matching")
    application.run({(f"{unique}-in-eu", 0): 2, (f"{unique}-in-us", 0): 3})
    options = ResetOptions(input_topics=frozenset({f"{unique}-in-us"}))
    reset(Application(application.home, application.application_id), options=options)
    assert committed(application, admin) == {(f"{unique}-in-eu", 0): 2, (f"{unique}-in-us", 0): 0}


def test_an_output_that_is_compacted_or_read_back_is_not_emptied(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in")
    create(admin, f"{unique}-out", cleanup_policy="compact")
    application = leave("app", "copying")
    options = ResetOptions(output_topics=frozenset({f"{unique}-out"}))
    with pytest.raises(OperationError, match=r"cleanup\.policy=compact"):
        reset(Application(application.home, application.application_id), options=options)
    with pytest.raises(OperationError, match="has no dead-letter topic"):
        reset(
            Application(application.home, application.application_id), options=ResetOptions(empties_dead_letters=True)
        )
    assert committed(application, admin) == {}


def test_the_next_start_is_accepted_with_another_number_of_partitions(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    """Case S14: a start with another number of partitions is refused, and a reset is the way out."""
    create(admin, f"{unique}-in", f"{unique}-out", partitions=2)
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v", partition=0)] * 5)
    application = leave("app", "counting")
    name = application.application_id
    application.run({(f"{unique}-in", 0): 5})
    admin.add_partitions(f"{unique}-in", 4)
    with pytest.raises(PreflightError, match="has 2 partitions, and 4 are needed"):
        application.run()
    savepoints = launched_repository(Application(application.home, name))
    savepoints.write(Manifest(name="before", application=name, state=SavepointState.COMPLETED, created_at=1.0))
    reset(Application(application.home, name))
    assert savepoints.names() == ["before"]
    reset(Application(application.home, name), options=ResetOptions(to=ToOffset(3), deletes_savepoints=True))
    assert savepoints.names() == []
    application.run()
    assert committed(application, admin) == {
        (f"{unique}-in", 0): 3,
        **{(f"{unique}-in", number): 0 for number in range(1, 4)},
        **{(f"{name}-by-user-repartition", number): 0 for number in range(4)},
    }
    assert {topic.partitions for topic in admin.describe_topics(topics_of(admin, f"{name}-")).values()} == {4}


STEPS = ("fence", "offsets", "internal-topics", "local-state", "records", "status", "check")


@pytest.mark.kills
def test_a_reset_that_is_killed_at_every_step_ends_as_one_that_is_not(
    leave: Callable[..., Left], admin: KafkaAdmin, unique: str
) -> None:
    create(admin, f"{unique}-in", f"{unique}-out", partitions=2)
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v", partition=0)] * 5)
    produce(admin.bootstrap_servers, f"{unique}-out", [Record(b"k", b"v", partition=1)])
    application = leave("app", "counting")
    name = application.application_id
    application.run({(f"{unique}-in", 0): 5})
    begin = ("reset", name, "--to-offset", "2", "--output-topics", f"{unique}-out")
    killed_at_every_step(STEPS, application.home, unique, name, *begin)
    # The records that come meanwhile, and the log's new begin, are those of the resumed reset.
    produce(admin.bootstrap_servers, f"{unique}-in", [Record(b"k", b"v", partition=0)] * 5)
    outcome = resume(Application(application.home, name))
    assert tuple(outcome.results) == STEPS
    assert committed(application, admin) == {(f"{unique}-in", 0): 2, (f"{unique}-in", 1): 0}
    assert topics_of(admin, f"{name}-") == set()
    assert not application.state.application(name).exists()
    assert begin_offsets(admin, [(f"{unique}-out", 1)]) == {(f"{unique}-out", 1): 1}
    status = application.status
    assert (status.state, status.topology_summary, status.partitions) == ("NOT_RUNNING", {}, {f"{unique}-in": 2})
