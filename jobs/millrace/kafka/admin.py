"""Administration of a cluster, with a time limit on every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)
from tenacity import RetryError, Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from millrace.errors import (
    GROWN_INPUT_REMEDY,
    BrokerUnavailableError,
    MillraceError,
    OperationError,
    PreflightError,
)
from millrace.kafka.clients import admin_settings, kafka_error, translate
from millrace.kafka.record_limits import TopicLimits
from millrace.kafka.topics import BROKER_DEFAULT, TopicDescription, TopicSpec
from millrace.topology.naming import LONGEST_TOPIC_NAME, colliding_names, problem_of_name

T = TypeVar("T")

_SETTLING_S = 10.0
"""How long after its creation a broker may not have heard of a topic, seconds."""

_GRACE_S = 2.0
COORDINATOR_MOVES = frozenset({
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
})  # fmt: skip


class KafkaAdmin:
    """The administrator of a cluster: its topics, their settings, and their limits.

    Every method answers or raises within about ``timeout_s``: :class:`BrokerUnavailableError` where no broker answers,
    :class:`PreflightError` where the broker refuses the credentials or a permission is missing.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings (security, ...) of the user.
        timeout_s: longest time of one request, seconds.
    """

    def __init__(
        self, bootstrap_servers: str, *, settings: Mapping[str, str] | None = None, timeout_s: float = 5.0
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.timeout_s = timeout_s
        self.settings = dict(settings or {})
        self._reason: KafkaError | None = None
        self._made: dict[str, float] = {}
        """When topics were created here, by the monotonic clock."""
        configuration: dict[str, Any] = {**admin_settings(bootstrap_servers, settings), "error_cb": self._on_error}
        self.client = AdminClient(configuration)

    def number_of_brokers(self) -> int:
        """Returns the number of brokers that the cluster has now."""
        cluster: Any = self.result(
            self.client.describe_cluster(request_timeout=self.timeout_s), doing="describing the cluster"
        )
        return len(cluster.nodes)

    def describe_topics(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """Returns the descriptions of those topics among ``names`` that exist.

        Brokers hear of a new topic one after the other: one that was created here a moment ago is waited for.
        """
        found = self._described(names)
        now = time.monotonic()
        late = [name for name in names if name not in found and now - self._made.get(name, -_SETTLING_S) < _SETTLING_S]
        if late:
            attempts = Retrying(
                retry=retry_if_result(lambda described: len(described) < len(set(late))),
                stop=stop_after_delay(self.timeout_s),
                wait=wait_fixed(0.05),
                retry_error_callback=lambda state: state.outcome.result() if state.outcome else {},
            )
            found |= attempts(self._described, late)
        return found

    def _described(self, names: Collection[str]) -> dict[str, TopicDescription]:
        if not names:
            return {}
        futures = self.client.describe_topics(TopicCollection(list(names)), request_timeout=self.timeout_s)
        found: dict[str, TopicDescription] = {}
        for name, future in futures.items():
            topic: Any = self.result(
                future, doing=f"describing topic {name}", unless=[KafkaError.UNKNOWN_TOPIC_OR_PART]
            )
            if topic is not None:
                found[name] = TopicDescription(
                    name=name,
                    topic_id=str(topic.topic_id),
                    partitions=len(topic.partitions),
                    replication_factor=len(topic.partitions[0].replicas),
                    leaderless=tuple(each.id for each in topic.partitions if each.leader is None),
                    internal=topic.is_internal,
                )
        return found

    def topic_names(self) -> frozenset[str]:
        """Returns the names of all topics that this user may see."""
        try:
            return frozenset(self.client.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise self.translated(kafka_error(error), "listing topics") from error

    def all_partitions(self) -> list[tuple[str, int]]:
        """Returns every partition of all topics that this user may see, sorted."""
        try:
            topics = self.client.list_topics(timeout=self.timeout_s).topics
        except KafkaException as error:
            raise self.translated(kafka_error(error), "listing topics") from error
        return sorted((name, number) for name, topic in topics.items() for number in topic.partitions)

    def describe_topic(self, name: str) -> TopicDescription:
        """Returns the description of one topic.

        Raises:
            PreflightError: it does not exist.
        """
        found = self.describe_topics([name])
        if name not in found:
            raise PreflightError(
                f"Topic {name} does not exist at {self.bootstrap_servers}.",
                remedy=f"create it (`millrace topics create {name}`) or correct the name",
            )
        return found[name]

    def topic_settings(self, name: str) -> dict[str, str]:
        """Returns all settings of a topic, including those that come from the broker's defaults.

        Raises:
            OperationError: the topic does not exist.
        """
        return self._settings(ConfigResource(ConfigResource.Type.TOPIC, name), f"reading settings of topic {name}")

    def settings_of_topics(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns :meth:`topic_settings` of several topics, read in one request.

        Raises:
            OperationError: a topic does not exist.
        """
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        if not resources:
            return {}
        found: dict[str, dict[str, str]] = {}
        for resource, future in self.client.describe_configs(resources, request_timeout=self.timeout_s).items():
            entries: Any = self.result(future, doing=f"reading settings of topic {resource.name}")
            found[resource.name] = {key: entry.value for key, entry in entries.items() if entry.value is not None}
        return found

    def own_topic_settings(self, name: str) -> dict[str, str]:
        """Returns the settings of a topic that override the broker's defaults.

        Raises:
            OperationError: the topic does not exist.
        """
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        future = self.client.describe_configs([resource], request_timeout=self.timeout_s)[resource]
        entries: Any = self.result(future, doing=f"reading settings of topic {name}")
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {key: entry.value for key, entry in entries.items() if entry.source == own}

    def change_topic_settings(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Changes some settings of a topic; ``None`` resets one to the broker's default. The others stay as they are.

        Raises:
            OperationError: the topic does not exist, or the broker refuses.
        """
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(
                    key,
                    value,
                    incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
                )
                for key, value in settings.items()
            ],
        )
        future = self.client.incremental_alter_configs([resource], request_timeout=self.timeout_s)[resource]
        self.result(future, doing=f"changing settings of topic {name}")

    def broker_settings(self) -> dict[str, str]:
        """Returns the settings of one broker, which stand for those of the whole cluster."""
        cluster: Any = self.result(
            self.client.describe_cluster(request_timeout=self.timeout_s), doing="describing the cluster"
        )
        broker = str(cluster.nodes[0].id)
        return self._settings(
            ConfigResource(ConfigResource.Type.BROKER, broker), f"reading settings of broker {broker}"
        )

    def topic_limits(self, names: Iterable[str]) -> dict[str, TopicLimits]:
        """Returns the limits for records of topics, as :class:`millrace.kafka.producer.TaskProducer` checks them."""
        return {name: TopicLimits.of(settings) for name, settings in self.settings_of_topics(names).items()}

    def unwritable_topics(self, names: Collection[str]) -> frozenset[str]:
        """Returns the topics to which this user may not write; none where the broker checks no permissions."""
        if not names:
            return frozenset()
        futures = self.client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self.timeout_s
        )
        found = set()
        for name, future in futures.items():
            refusals = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART
            topic: Any = self.result(future, doing=f"describing topic {name}", unless=refusals)
            if topic is None:
                hidden = isinstance(error := future.exception(), KafkaException) and (
                    kafka_error(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                )
                found.update([name] if hidden else [])
            elif AclOperation.WRITE not in (topic.authorized_operations or (AclOperation.WRITE,)):
                found.add(name)
        return frozenset(found)

    def create_missing(self, specs: Iterable[TopicSpec]) -> tuple[str, ...]:
        """Creates the topics that do not exist, and checks the partition count of those that do.

        Several callers at once are fine. Returns when every topic has leaders.

        Returns:
            Names of the topics that this call created.

        Raises:
            PreflightError: a topic exists with another number of partitions, or the broker would refuse a name (nothing
                is created then), or it does not take a spec.
        """
        wanted = {spec.name: spec for spec in specs}
        _check_names(wanted)
        existing = self.describe_topics(wanted)
        self._check_partitions(wanted, existing)
        missing = [spec for name, spec in wanted.items() if name not in existing]
        if not missing:
            return ()
        self._check_collisions([spec.name for spec in missing])
        futures = self.client.create_topics(
            [
                NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.settings))
                for spec in missing
            ],
            request_timeout=self.timeout_s,
            operation_timeout=self.timeout_s,
        )
        created = tuple(name for name, future in futures.items() if self._created(name, future))
        self._made |= dict.fromkeys(created, time.monotonic())
        self._wait_for_leaders(wanted)
        return created

    def delete_topics(self, names: Collection[str]) -> None:
        """Deletes topics with all their records; topics that do not exist are skipped.

        Returns when they are gone.

        Raises:
            OperationError: they are still there after the time limit.
        """
        if not names:
            return
        futures = self.client.delete_topics(
            # A name that stands there twice makes the whole request invalid.
            sorted(set(names)),
            request_timeout=self.timeout_s,
            operation_timeout=self.timeout_s,
        )
        for name, future in futures.items():
            self.result(future, doing=f"deleting topic {name}", unless=[KafkaError.UNKNOWN_TOPIC_OR_PART])
        for name in names:
            self._made.pop(name, None)
        # The controller has decided it; a broker may still describe the topic, and whoever creates it again would take
        # it for the old one.
        self._wait_while(
            lambda: bool(self.describe_topics(names)),
            failure=f"Topics {', '.join(sorted(names))} were deleted, and are still there",
        )

    def add_partitions(self, topic: str, total: int) -> None:
        """Raises the number of partitions of a topic to ``total``."""
        futures = self.client.create_partitions([NewPartitions(topic, total)], request_timeout=self.timeout_s)
        self.result(futures[topic], doing=f"adding partitions to topic {topic}")

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Deletes the records before an offset, which a topic whose ``cleanup.policy`` is delete allows.

        Args:
            before: ``(topic, partition) -> offset``; that offset itself stays. -1 stands for the end.

        Returns:
            The new begin of each log.
        """
        if not before:
            return {}
        positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
        futures = self.client.delete_records(
            positions, request_timeout=self.timeout_s, operation_timeout=self.timeout_s
        )
        begins: dict[tuple[str, int], int] = {}
        for position, future in futures.items():
            deleted: Any = self.result(future, doing=f"deleting records of {position.topic}-{position.partition}")
            begins[position.topic, position.partition] = deleted.low_watermark
        return begins

    def result(self, future: Future[T], *, doing: str, unless: Collection[int] = ()) -> T | None:
        """Returns the result of a future that :attr:`client` returned.

        Args:
            future: a result of an admin call.
            doing: what was asked, for the error message.
            unless: error codes that give ``None`` instead of an exception.

        Raises:
            BrokerUnavailableError, PreflightError, OperationError: see :func:`millrace.kafka.clients.translate`.
        """
        return self._answer(lambda: future.result(self.timeout_s + _GRACE_S), doing, unless)

    def ask_coordinator(self, call: Callable[[], Future[T]], *, doing: str, unless: Collection[int] = ()) -> T | None:
        """Returns a result as :meth:`result` does, for requests to a group's coordinator, which may load or move.

        The client library hands that through as an error; here it is asked again within the time limit.

        Args:
            call: sends the request.
            doing: what is asked, for the error message.
            unless: error codes that give ``None`` instead of an exception.

        Raises:
            BrokerUnavailableError, PreflightError, OperationError: see :func:`millrace.kafka.clients.translate`.
        """
        attempts = Retrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, KafkaException) and kafka_error(error).code() in COORDINATOR_MOVES
            ),
            stop=stop_after_delay(self.timeout_s),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        return self._answer(lambda: attempts(lambda: call().result(self.timeout_s + _GRACE_S)), doing, unless)

    def _answer(self, read: Callable[[], T], doing: str, unless: Collection[int]) -> T | None:
        try:
            return read()
        except KafkaException as error:
            inner = kafka_error(error)
            if inner.code() in unless:
                return None
            raise self.translated(inner, doing) from error
        except FutureTimeoutError as error:
            raise BrokerUnavailableError(
                f"No answer from {self.bootstrap_servers} within {self.timeout_s:g} s while {doing}.",
                remedy="start the broker (`millrace broker start`) or correct bootstrap.servers",
            ) from error

    def translated(self, error: KafkaError, doing: str) -> MillraceError:
        """Returns Millrace's error for one that this client received."""
        # A connection that fails shows as a time-out of the request; the reason comes by the callback.
        self.client.poll(0)
        translated = translate(error, doing=doing, bootstrap_servers=self.bootstrap_servers)
        if isinstance(translated, BrokerUnavailableError) and self._reason is not None:
            return translate(self._reason, doing=doing, bootstrap_servers=self.bootstrap_servers)
        return translated

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._reason = error

    def _settings(self, resource: ConfigResource, doing: str) -> dict[str, str]:
        future = self.client.describe_configs([resource], request_timeout=self.timeout_s)[resource]
        entries: Any = self.result(future, doing=doing)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _check_partitions(self, wanted: Mapping[str, TopicSpec], existing: Mapping[str, TopicDescription]) -> None:
        for name, topic in existing.items():
            partitions = wanted[name].partitions
            if partitions not in (BROKER_DEFAULT, topic.partitions):
                raise PreflightError(
                    f"Topic {name} has {topic.partitions} partitions, and {partitions} are needed.",
                    remedy=f"adding partitions would send keys to tasks that do not have their state. Give the input "
                    f"topics {topic.partitions} partitions; or {GROWN_INPUT_REMEDY}",
                )

    def _check_collisions(self, names: Collection[str]) -> None:
        collisions = colliding_names(names, self.topic_names())
        if collisions:
            raise PreflightError(
                f"The broker would refuse topics whose names differ in '.' and '_' only: {'; '.join(collisions)}.",
                remedy="give one of each two another name; in the names of its metrics the broker writes '_' for '.'",
            )

    def _created(self, name: str, future: Future[None]) -> bool:
        try:
            future.result(self.timeout_s + _GRACE_S)
        except KafkaException as error:
            inner = kafka_error(error)
            if inner.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            translated = self.translated(inner, f"creating topic {name}")
            if isinstance(translated, OperationError):
                raise PreflightError(
                    f"The broker does not create topic {name}: {inner.name()}: {inner.str()}.",
                    remedy="correct the topic's partitions, replication factor or settings",
                ) from error
            raise translated from error
        return True

    def _wait_for_leaders(self, wanted: Mapping[str, TopicSpec]) -> None:
        def is_incomplete() -> bool:
            found = self.describe_topics(wanted)
            self._check_partitions(wanted, found)
            return len(found) < len(wanted) or any(topic.leaderless for topic in found.values())

        self._wait_while(is_incomplete, failure=f"Topics {', '.join(sorted(wanted))} were created, and have no leaders")

    def _wait_while(self, is_incomplete: Callable[[], bool], *, failure: str) -> None:
        attempts = Retrying(
            retry=retry_if_result(bool), stop=stop_after_delay(self.timeout_s + _GRACE_S), wait=wait_fixed(0.05)
        )
        try:
            attempts(is_incomplete)
        except RetryError:
            raise OperationError(f"{failure} after {self.timeout_s:g} s.", remedy="see the brokers' logs") from None


def _check_names(names: Collection[str]) -> None:
    problems = [f"{name} {problem}" for name in names if (problem := problem_of_name(name))]
    if problems:
        raise PreflightError(
            f"The broker would refuse the name of a topic: {'; '.join(problems)}.",
            remedy=f"use 1 to {LONGEST_TOPIC_NAME} of the characters a-z A-Z 0-9 . _ -",
        )
