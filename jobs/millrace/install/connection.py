"""The connection of an operation to an application's cluster, from the specification at the time of use.

Settings may hold passwords, so that a journal never has them; an operation that is resumed reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millrace.config import StreamsConfig
from millrace.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from millrace.driver.status import ApplicationStatus

ADMIN_TIMEOUT_S = 30.0
"""Longest time of one request of an operation to the cluster, seconds: Kafka's own default of `request.timeout.ms`. An
operation works beside an application that may load the broker, and no process waits for its single requests."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A cluster, and the client settings with which an application speaks to it.

    Args:
        bootstrap_servers: host:port list.
        admin: settings of administrators.
        producer: settings of producers.
        consumer: settings of consumers.
    """

    bootstrap_servers: str
    admin: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: StreamsConfig) -> Connection:
        """Returns the connection that a configuration describes."""
        return cls(
            bootstrap_servers=config.bootstrap_servers,
            admin=config.client_settings("admin."),
            producer=config.client_settings("producer."),
            consumer=config.client_settings("consumer."),
        )

    def administrator(self) -> KafkaAdmin:
        """Returns an administrator of the cluster."""
        return KafkaAdmin(self.bootstrap_servers, settings=self.admin, timeout_s=ADMIN_TIMEOUT_S)

    def statuses(self) -> dict[str, ApplicationStatus]:
        """Returns what the drivers of all applications of the cluster published last, by application id.

        Raises:
            BrokerUnavailableError: no broker answered, or not everything could be read in time.
        """
        # Not every command that reaches a cluster reads it, and none is to wait for the import.
        from millrace.driver.status_topic import read_statuses

        return read_statuses(self.bootstrap_servers, client_settings=self.admin, timeout_s=ADMIN_TIMEOUT_S)


def admin_of(config: StreamsConfig) -> KafkaAdmin:
    """Returns an administrator of an application's cluster, as every operation makes it."""
    return Connection.of(config).administrator()
