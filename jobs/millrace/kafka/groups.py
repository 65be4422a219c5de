"""The live members of a consumer group, and the fencing of producers of a group's tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from millrace.errors import TaskMigratedError
from millrace.kafka.admin import COORDINATOR_MOVES, KafkaAdmin
from millrace.kafka.clients import base_settings
from millrace.kafka.producer import Offsets, TaskProducer
from millrace.kafka.topics import STATUS_TOPIC

_FENCE_THREADS = 8
_OFFSETS_TOPIC = "__consumer_offsets"
_REFUSED_AS_STRANGER = frozenset({
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.REBALANCE_IN_PROGRESS,
})  # fmt: skip
_NOT_ASKED = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_TAKE_OVER_ATTEMPTS = 5
_PROBE_POLL_S = 0.1


class GroupProtocol(StrEnum):
    """The protocol by which a group's members are coordinated."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    OTHER = "other"
    """A kind that the client library does not know: Kafka Streams' own protocol (KIP-1071), for example."""


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """A member of a group.

    Args:
        member_id: given by the coordinator.
        client_id: given by the member itself.
        host: where it connects from.
    """

    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, kw_only=True)
class GroupMembership:
    """The membership of a group.

    Args:
        group: group id.
        protocol: ``None`` where the group has neither members nor, as far as the client library tells, exists.
        state: the coordinator's word for it, in lower case; empty where it is not known.
        members: those that are known; of a group with another protocol only that there are some.
    """

    group: str
    protocol: GroupProtocol | None
    state: str
    members: tuple[GroupMember, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether a process is a member, so that the group's offsets are not Millrace's alone."""
        return bool(self.members) or self.protocol is GroupProtocol.OTHER

    def __str__(self) -> str:
        who = ", ".join(f"{member.client_id}@{member.host.lstrip('/')}" for member in self.members)
        return f"{self.group} ({self.protocol or 'unknown'}, {self.state or 'no group'}): {who or 'no known members'}"


def live_members(admin: KafkaAdmin, group: str) -> GroupMembership:
    """Returns the live members of a group, whichever protocol they use.

    The coordinator is asked to take an offset that it never takes, since its metadata is too long: where the group has
    members, it says that the asker is none of them, before it looks at the metadata. Nothing is written either way, and
    it holds for groups of a protocol that the client library neither lists nor describes.

    Raises:
        BrokerUnavailableError, PreflightError: see :class:`KafkaAdmin`.
    """
    if not _coordinator_knows_members(admin, group):
        return GroupMembership(group=group, protocol=None, state="")
    # A client of its own: requests to a coordinator are not answered any more after the broker was started again.
    admin = KafkaAdmin(admin.bootstrap_servers, settings=admin.settings, timeout_s=admin.timeout_s)
    listing: Any = admin.result(
        admin.client.list_consumer_groups(request_timeout=admin.timeout_s), doing="listing consumer groups"
    )
    if not any(each.group_id == group for each in listing.valid):
        return GroupMembership(group=group, protocol=GroupProtocol.OTHER, state="")
    described: Any = admin.ask_coordinator(
        lambda: admin.client.describe_consumer_groups([group], request_timeout=admin.timeout_s)[group],
        doing=f"describing group {group}",
        unless=[KafkaError.GROUP_ID_NOT_FOUND],
    )
    if described is None:
        return GroupMembership(group=group, protocol=None, state="")
    members = tuple(
        GroupMember(member_id=member.member_id, client_id=member.client_id, host=member.host)
        for member in described.members
    )
    protocol = GroupProtocol.CONSUMER if described.type is ConsumerGroupType.CONSUMER else GroupProtocol.CLASSIC
    return GroupMembership(group=group, protocol=protocol, state=described.state.name.lower(), members=members)


def fence_transactional_ids(
    bootstrap_servers: str,
    transactional_ids: Collection[str],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> None:
    """Takes transactional ids over: every producer that uses one of them is fenced, and its transaction is aborted.

    Needed where tasks were renumbered: no process would take over the ids of tasks that no longer exist. A crash in
    the middle leaves some fenced; doing it again is harmless.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        transactional_ids: which.
        settings: producer settings (security) of the user.
        timeout_s: longest time for one id, seconds.

    Raises:
        BrokerUnavailableError: an id could not be taken over in time.
    """

    def fence(transactional_id: str) -> None:
        with TaskProducer(
            bootstrap_servers, transactional_id=transactional_id, settings=settings, timeout_s=timeout_s
        ) as producer:
            producer.init()

    if transactional_ids:
        with ThreadPoolExecutor(min(_FENCE_THREADS, len(transactional_ids))) as pool:
            list(pool.map(fence, transactional_ids))


def fence_and_commit(
    bootstrap_servers: str,
    transactional_ids: Collection[str],
    read: Callable[[], Offsets],
    group: str,
    *,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> None:
    """Commits offsets under each of other producers' transactional ids, so that none of them commits in between.

    A producer that takes its id back after ours took it over makes our commit fail, and all begins again; once all of
    ours have succeeded, such a producer finds our commit. A crash in the middle is harmless: doing it again is.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        transactional_ids: which.
        read: gives the offsets to commit; called when all ids are taken over.
        group: consumer group.
        settings: producer settings (security) of the user.
        timeout_s: longest time for one call of one id, seconds.

    Raises:
        TaskMigratedError: an id was taken back each time.
        BrokerUnavailableError: an id could not be taken over in time.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(TaskMigratedError), stop=stop_after_attempt(_TAKE_OVER_ATTEMPTS), reraise=True
    )
    for attempt in attempts:
        with attempt, ExitStack() as opened, ThreadPoolExecutor(_FENCE_THREADS) as pool:
            producers = [
                opened.enter_context(
                    TaskProducer(
                        bootstrap_servers, transactional_id=transactional_id, settings=settings, timeout_s=timeout_s
                    )
                )
                for transactional_id in transactional_ids
            ]
            list(pool.map(TaskProducer.init, producers))
            offsets = read()

            def commit(producer: TaskProducer, offsets: Offsets = offsets) -> None:
                producer.begin()
                producer.commit(offsets, group)

            list(pool.map(commit, producers))


def _coordinator_knows_members(admin: KafkaAdmin, group: str) -> bool:
    """Returns whether the group has members: its coordinator then refuses offsets of a consumer that never joins.

    The admin client's request for the same ends the process where the broker has no coordinator for the group yet
    (librdkafka issue 5040).
    """
    # Every user of Millrace may read the status topic. The broker's offsets topic exists once any group was used; who
    # may read neither sees few topics, and any readable one will do.
    refusals = _refused_offsets(admin, group, [STATUS_TOPIC])
    if not _codes(refusals) - _NOT_ASKED:
        refusals = _refused_offsets(admin, group, [_OFFSETS_TOPIC])
        if _codes(refusals) == {KafkaError.UNKNOWN_TOPIC_OR_PART}:
            return False
    if not _codes(refusals) - _NOT_ASKED:
        refusals = _refused_offsets(admin, group, admin.topic_names())
    if _codes(refusals) & _REFUSED_AS_STRANGER:
        return True
    if KafkaError.OFFSET_METADATA_TOO_LARGE in _codes(refusals):
        return False
    raise admin.translated(refusals[0], _asking_for_members(group))


def _refused_offsets(admin: KafkaAdmin, group: str, topics: Collection[str]) -> list[KafkaError]:
    """Returns the coordinator's errors for offsets that it never accepts, one for each topic."""
    too_long = "x" * (int(admin.broker_settings()["offset.metadata.max.bytes"]) + 1)
    probes = [TopicPartition(topic, 0, 0, too_long) for topic in topics]
    answers: list[KafkaError] = []

    def take(error: KafkaError | None, positions: list[TopicPartition]) -> None:
        refused = [position.error for position in positions if position.error is not None]
        answers.extend(refused or [error or KafkaError(KafkaError.NO_ERROR)])

    consumer = Consumer({
        **base_settings(admin.bootstrap_servers, admin.settings),
        "group.id": group,
        "enable.auto.commit": False,
        "on_commit": take,
    })  # fmt: skip
    deadline = time.monotonic() + admin.timeout_s
    try:
        while True:
            answers.clear()
            consumer.commit(offsets=probes, asynchronous=True)
            while not answers and time.monotonic() < deadline:
                consumer.poll(_PROBE_POLL_S)
            if not answers:
                raise admin.translated(KafkaError(KafkaError._TIMED_OUT), _asking_for_members(group))
            if not _codes(answers) & COORDINATOR_MOVES or time.monotonic() >= deadline:
                return answers
            # The coordinator is loading or moving: it is asked again.
            consumer.poll(_PROBE_POLL_S)
    finally:
        consumer.close()


def _codes(errors: Collection[KafkaError]) -> set[int]:
    return {error.code() for error in errors}


def _asking_for_members(group: str) -> str:
    return f"asking for members of group {group}"


def delete_group(admin: KafkaAdmin, group: str) -> None:
    """Deletes a group with its offsets; a group that does not exist is skipped.

    Args:
        admin: an administrator of the cluster.
        group: its name.

    Raises:
        OperationError: it has members, or the broker refuses.
    """
    admin.ask_coordinator(
        lambda: admin.client.delete_consumer_groups([group], request_timeout=admin.timeout_s)[group],
        doing=f"deleting consumer group {group}",
        unless=[KafkaError.GROUP_ID_NOT_FOUND],
    )
