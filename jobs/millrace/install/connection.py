"""The connection of an operation to an application's cluster, from the specification at the time of use.

Settings may hold passwords, so that a journal never has them; an operation that is resumed reads them again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from millrace.config import LOGIN_PREFIXES, StreamsConfig
from millrace.errors import ConfigurationError
from millrace.install.application import Application
from millrace.install.references import interpolate, read_properties
from millrace.install.which_spec import Use
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


class NamedCluster(BaseModel):
    """A cluster that is named where no specification does.

    Args:
        bootstrap_servers: host:port list.
        command_config: properties file with the login; ``None`` without one.
    """

    model_config = ConfigDict(frozen=True)

    bootstrap_servers: str
    command_config: Path | None = None


def read_login(path: Path | None) -> dict[str, str]:
    """Returns the settings of a login in a properties file; none where no file is given.

    Raises:
        ConfigurationError: the file cannot be read, has another setting, or refers to what is not there.
    """
    login = read_properties(path) if path is not None else {}
    for key in login:
        if not key.startswith(LOGIN_PREFIXES):
            raise ConfigurationError(
                f"{path} has {key}, which is no setting of a login.",
                remedy=f"leave only those that begin with {', '.join(LOGIN_PREFIXES)}",
            )
    return {key: str(interpolate(value, os.environ)) for key, value in login.items()}


def config_of(
    application: Application, cluster: NamedCluster | None = None, *, use: Use = Use.RUNNING
) -> StreamsConfig:
    """Returns the configuration of an application, with which an operation reaches its cluster.

    Args:
        application: which.
        cluster: given for an application that has no specification here.
        use: what it is wanted for.

    Raises:
        ConfigurationError: the specification, or the file of the login, is missing or wrong.
    """
    if cluster is not None:
        named = {"application.id": application.name, "bootstrap.servers": cluster.bootstrap_servers}
        return StreamsConfig.from_mapping({**read_login(cluster.command_config), **named})
    remedy = "name an application with a specification, or give --application-id for one without"
    return application.specification(use, remedy=remedy).spec.streams_config()
