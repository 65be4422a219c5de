"""A cluster that is named with its login, for an application that has no specification here."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from millrace.config import LOGIN_PREFIXES, StreamsConfig
from millrace.errors import ConfigurationError
from millrace.install.application import Application
from millrace.install.references import interpolate, read_properties
from millrace.install.which_spec import Use


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
