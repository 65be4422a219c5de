"""How an operation reaches the cluster of an application: its settings, from the specification at the time of use.

Settings may hold passwords, so that a journal never has them; an operation that is resumed reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.config import StreamsConfig
from millrace.kafka.admin import KafkaAdmin
from millrace.ops.home import Home
from millrace.ops.observe import required_spec

ADMIN_TIMEOUT_S = 30.0
"""Longest time of one request of an operation to the cluster, seconds: Kafka's own default of `request.timeout.ms`. An
operation works beside an application that may load the broker, and nobody waits for its single requests."""


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
        """The connection that a configuration describes."""
        return cls(
            bootstrap_servers=config.bootstrap_servers,
            admin=config.client_settings("admin."),
            producer=config.client_settings("producer."),
            consumer=config.client_settings("consumer."),
        )

    def administrator(self) -> KafkaAdmin:
        """An administrator of the cluster."""
        return KafkaAdmin(self.bootstrap_servers, settings=self.admin, timeout_s=ADMIN_TIMEOUT_S)


def admin_of(config: StreamsConfig) -> KafkaAdmin:
    """An administrator of an application's cluster, as every operation makes it."""
    return Connection.of(config).administrator()


def config_of(home: Home, application: str, bootstrap_servers: str | None) -> tuple[StreamsConfig, str | None]:
    """The configuration of an application and the function that builds its topology.

    Args:
        home: the installation.
        application: its name.
        bootstrap_servers: given for an application that has no specification here.

    Raises:
        ConfigurationError: the specification is missing or wrong.
    """
    if bootstrap_servers is not None:
        named = {"application.id": application, "bootstrap.servers": bootstrap_servers}
        return StreamsConfig.from_mapping(named), None
    spec = required_spec(
        home, application, remedy="name an application with a specification, or give --application-id for one without"
    )
    return spec.streams_config(), spec.module
