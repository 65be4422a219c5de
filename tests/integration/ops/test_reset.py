"""Reset against the real broker: what goes, what stays, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from millrace.ops.reset import ResetOptions, ToTime, reset
from tests.application import PREFIX_VARIABLE
from tests.integration.ops.resetting import Left, committed, home_in, topics_of
from tests.records import Record, produce


@pytest.fixture
def admin(bootstrap_servers: str, unique: str) -> Iterator[KafkaAdmin]:
    """An administrator; the test's topics are deleted afterwards."""
    made = KafkaAdmin(bootstrap_servers)
    yield made
    made.delete_topics(topics_of(made, unique))


@pytest.fixture
def leave(
    bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admin: KafkaAdmin
) -> Callable[..., Left]:
    """``leave("my-app", "counting")``: an application over the topics ``in`` and ``out``, which has not run yet."""
    monkeypatch.setenv(PREFIX_VARIABLE, unique)

    def make(name: str, function: str, **config: Any) -> Left:
        settings = {"bootstrap.servers": bootstrap_servers, **{k.replace("_", "."): v for k, v in config.items()}}
        return Left(home_in(tmp_path), f"{unique}-{name}", function, settings)

    return make


def create(admin: KafkaAdmin, *names: str, partitions: int = 1, **settings: str) -> None:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_missing([TopicSpec(name=name, partitions=partitions, settings=named) for name in names])


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

    plan = reset(mine.home, mine.application_id, dry_run=True)
    assert topics_of(admin, unique) == before
    (deletion,) = [step for step in plan.steps if step.startswith("Delete")]
    assert deletion.endswith(f"creates anew: {', '.join(sorted(own))}.")

    outcome = reset(mine.home, mine.application_id)
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
    reset(application.home, application.application_id, options=ResetOptions(to=ToTime(150)))
    assert committed(application, admin) == {(topic, 0): 1, (topic, 1): 0, (topic, 2): 1}
