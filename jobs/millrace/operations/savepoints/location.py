"""Which application a savepoint is of, and where its savepoints are."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.config import StreamsConfig
from millrace.driver.matched_topics import with_topics_read
from millrace.dsl.loading import load_topology
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.spec import ApplicationSpec
from millrace.operations.savepoints.repository import SavepointRepository
from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True)
class Target:
    """An application with what it runs.

    Args:
        spec: its specification.
        config: its configuration.
        topology: its topology.
    """

    spec: ApplicationSpec
    config: StreamsConfig
    topology: FrozenTopology


def target_of(spec: ApplicationSpec) -> Target:
    """The application of a specification."""
    config = spec.streams_config()
    return Target(spec, config, with_topics_read(load_topology(spec.module, config), config))


def repository_of(home: Home, spec: ApplicationSpec, *, application: str | None = None) -> SavepointRepository:
    """Where an application's savepoints are.

    Args:
        home: the installation.
        spec: its specification.
        application: whose savepoints, where that is another one.
    """
    url = spec.savepoints.directory or str(home.root / "savepoints")
    return SavepointRepository(url, application or spec.name)


def launched_repository(application: Application) -> SavepointRepository:
    """Where the savepoints of an application are, as what it was launched with says.

    Raises:
        ConfigurationError: there is no valid specification.
    """
    return repository_of(application.home, application.launched.spec)
