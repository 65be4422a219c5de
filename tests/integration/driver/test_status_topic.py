from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher, ensure_status_topic, read_statuses
from millrace.errors import BrokerUnavailableError, DriverFencedError, TransactionAbortedError
from millrace.kafka.clients import base_settings
from millrace.kafka.topics import STATUS_TOPIC

Open = Callable[..., StatusPublisher]


@pytest.fixture
def new_publisher(bootstrap_servers: str, unique: str) -> Iterator[Open]:
    made: list[StatusPublisher] = []

    def make(application_id: str = unique) -> StatusPublisher:
        made.append(StatusPublisher(bootstrap_servers, application_id))
        return made[-1]

    yield make
    for each in made:
        each.close()


def status_of(publisher: StatusPublisher, application_id: str, **changes: Any) -> ApplicationStatus:
    fields: dict[str, Any] = {"state": ApplicationState.RUNNING, "driver": DriverIdentity.of_this_process(), **changes}
    return ApplicationStatus(application_id=application_id, driver_epoch=publisher.epoch, **fields)


def test_the_topic_is_made_compacted_with_one_partition_and_making_it_twice_is_no_error(
    bootstrap_servers: str, admin_client: AdminClient
) -> None:
    ensure_status_topic(bootstrap_servers)
    ensure_status_topic(bootstrap_servers)
    assert len(admin_client.list_topics(STATUS_TOPIC, timeout=10).topics[STATUS_TOPIC].partitions) == 1
    resource = ConfigResource(ResourceType.TOPIC, STATUS_TOPIC)
    (described,) = admin_client.describe_configs([resource]).values()
    assert described.result(10)["cleanup.policy"].value == "compact"


def test_what_is_published_is_read_quickly(bootstrap_servers: str, unique: str, new_publisher: Open) -> None:
    publisher = new_publisher()
    assert publisher.open() is None
    for offset in range(50):
        publisher.publish(status_of(publisher, unique, offsets={"in": {0: offset}}))
    began = time.monotonic()
    status = read_statuses(bootstrap_servers)[unique]
    assert time.monotonic() - began < 1
    assert (status.driver_epoch, status.offsets) == (1, {"in": {0: 49}})


def test_a_newer_driver_fences_the_older_for_good_and_takes_the_next_epoch(
    bootstrap_servers: str, unique: str, new_publisher: Open
) -> None:
    older, newer = new_publisher(), new_publisher()
    older.open()
    older.publish(status_of(older, unique, offsets={"in": {0: 7}}))
    last = newer.open()
    assert last is not None
    assert last.offsets == {"in": {0: 7}}
    newer.publish(status_of(newer, unique))
    assert newer.epoch == 2
    for _ in range(2):
        with pytest.raises(DriverFencedError, match=rf"Driver 1 of {unique} was fenced by a newer driver: driver 2 "):
            older.publish(status_of(older, unique))
    newer.publish(status_of(newer, unique, reason="goes on"))
    assert read_statuses(bootstrap_servers)[unique].reason == "goes on"


def test_a_driver_that_died_inside_a_transaction_hides_nobodys_status(
    bootstrap_servers: str, unique: str, new_publisher: Open
) -> None:
    dying = Producer({**base_settings(bootstrap_servers), "transactional.id": f"{unique}-dying"})
    dying.init_transactions(30)
    dying.begin_transaction()
    dying.produce(STATUS_TOPIC, key=f"{unique}-dying".encode(), value=b"{}", partition=0)
    dying.flush(10)
    publisher = new_publisher()
    publisher.open()
    publisher.publish(status_of(publisher, unique))
    assert read_statuses(bootstrap_servers)[unique].driver_epoch == 1
    dying.abort_transaction(10)


def test_a_late_record_of_a_fenced_driver_does_not_win(
    bootstrap_servers: str, unique: str, new_publisher: Open
) -> None:
    older, newer = new_publisher(), new_publisher()
    older.open()
    older.publish(status_of(older, unique))
    late = status_of(older, unique, reason="late").to_json()
    newer.open()
    newer.publish(status_of(newer, unique, reason="right"))
    foreign = Producer(base_settings(bootstrap_servers))
    foreign.produce(STATUS_TOPIC, key=unique.encode(), value=late, partition=0)
    assert foreign.flush(10) == 0
    assert read_statuses(bootstrap_servers)[unique].reason == "right"


def test_a_transaction_that_the_broker_ended_is_not_taken_for_a_newer_driver(unique: str, new_publisher: Open) -> None:
    """A driver that was suspended inside a transaction goes on when no process took over meanwhile."""
    publisher = new_publisher()
    publisher.open()
    # The same id initialised elsewhere, without a newer status: what the broker's own abort looks like to the client.
    publisher.publish(status_of(publisher, unique))
    other = StatusPublisher(publisher._bootstrap_servers, unique)
    other.open()
    other.close()
    with pytest.raises(TransactionAbortedError):
        publisher.publish(status_of(publisher, unique))
    publisher.publish(status_of(publisher, unique, reason="again"))


def test_of_two_drivers_that_found_the_same_epoch_one_goes_on(unique: str, new_publisher: Open) -> None:
    older, newer = new_publisher(), new_publisher()
    older.open()
    newer.open()
    assert older.epoch == newer.epoch == 1
    newer.publish(status_of(newer, unique, run_id="newer"))
    with pytest.raises(DriverFencedError):
        older.publish(status_of(older, unique, run_id="older"))
    newer.publish(status_of(newer, unique, run_id="newer"))


def test_a_broker_that_is_away_is_named_in_time(bootstrap_servers: str) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:9"):
        read_statuses("127.0.0.1:9", timeout_s=1)
    with pytest.raises(BrokerUnavailableError):
        StatusPublisher("127.0.0.1:9", "app", timeout_s=1).open()
    assert time.monotonic() - began < 6


def test_publishing_before_opening_is_refused(unique: str, new_publisher: Open) -> None:
    publisher = new_publisher()
    with pytest.raises(Exception, match="is not open") as raised:
        publisher.publish(status_of(publisher, unique))
    assert not isinstance(raised.value, KafkaException)
