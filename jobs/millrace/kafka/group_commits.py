"""Commits of offsets to a consumer group that has no members, inside of transactions and outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential_jitter

from millrace.config import login_settings
from millrace.kafka.clients import base_settings, kafka_error, translate


@lru_cache(maxsize=64)
def group_metadata(group: str) -> Any:
    """Returns the group metadata for ``send_offsets_to_transaction``: the group's name, and no membership.

    The coordinator takes offsets that come in a transaction from such a stranger even while the group has members, so
    whoever must not share the group looks for members first (:func:`millrace.kafka.groups.live_members`).
    """
    # The object cannot be made directly. This consumer never joins, and needs no broker.
    consumer = Consumer({**base_settings("127.0.0.1:9"), "group.id": group})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


class GroupCommitter:
    """The committer of offsets with their metadata outside transactions; it connects at the first commit.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user; those that only producers know are left out.
    """

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str] | None = None) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._settings = login_settings(settings or {})
        self._consumers: dict[str, Consumer] = {}

    def commit(self, positions: Sequence[TopicPartition], group: str, *, timeout_s: float) -> None:
        """Commits the offsets; returns when the coordinator has accepted all of them.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            OperationError: the coordinator refused, for example since the group has members.
        """
        if not positions:
            return
        consumer = self._consumer(group)
        attempts = Retrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, KafkaException) and kafka_error(error).retriable()
            ),
            stop=stop_after_delay(timeout_s),
            wait=wait_exponential_jitter(multiplier=0.02, max=1.0, jitter=0.02),
            reraise=True,
        )
        try:
            committed: list[TopicPartition] | None = attempts(
                consumer.commit, offsets=list(positions), asynchronous=False
            )
        except KafkaException as error:
            raise self._translated(kafka_error(error), group) from error
        for position in committed or ():
            if position.error is not None:
                raise self._translated(position.error, group)

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _translated(self, error: Any, group: str) -> Exception:
        return translate(error, doing=f"committing offsets of group {group}", bootstrap_servers=self._bootstrap_servers)

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = Consumer({
                **base_settings(self._bootstrap_servers, self._settings),
                "group.id": group,
                "enable.auto.commit": False,
            })  # fmt: skip
        return self._consumers[group]
