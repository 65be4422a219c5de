"""The application that is exported, and what several parts need of it, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from millrace.config import StreamsConfig
from millrace.driver.matched_topics import with_topics_read
from millrace.dsl.loading import load_topology
from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.connection import admin_of
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.spec import ApplicationSpec
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.transactions import list_transactions
from millrace.topology.topology import FrozenTopology

ClusterKey = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class Clusters:
    """Answers that hold for all applications of a cluster, asked for once in an export."""

    _administrators: dict[ClusterKey, KafkaAdmin | MillraceError] = field(default_factory=dict)
    _transactions: dict[ClusterKey, Mapping[str, str]] = field(default_factory=dict)

    def administrator(self, config: StreamsConfig) -> KafkaAdmin:
        """An administrator of a cluster that answers: a broker that does not answer takes its time limit once, not in
        each part.

        Raises:
            MillraceError: it does not, or did not when it was asked for another part or application.
        """
        key = _key(config)
        if key not in self._administrators:
            admin = admin_of(config)
            try:
                admin.number_of_brokers()
            except MillraceError as error:
                self._administrators[key] = error
            else:
                self._administrators[key] = admin
        found = self._administrators[key]
        if isinstance(found, MillraceError):
            raise found
        return found

    def transactions(self, config: StreamsConfig) -> Mapping[str, str]:
        """See :func:`list_transactions`."""
        key = _key(config)
        if key not in self._transactions:
            settings = config.client_settings("admin.")
            self._transactions[key] = list_transactions(config.bootstrap_servers, settings=settings)
        return self._transactions[key]


def _key(config: StreamsConfig) -> ClusterKey:
    return config.bootstrap_servers, tuple(sorted(config.client_settings("admin.").items()))


@dataclass
class ExportedApplication:
    """One application; what cannot be had raises where it is asked for, so that other parts go on.

    Args:
        home: the installation.
        application: its name.
        clusters: shared by all applications of the export.
    """

    home: Home
    application: str
    clusters: Clusters

    @property
    def handle(self) -> Application:
        """The handle of operations."""
        return Application(self.home, self.application)

    @property
    def directory(self) -> ApplicationDirectory:
        """Its files."""
        return self.handle.directory

    @cached_property
    def spec(self) -> ApplicationSpec:
        """The specification that it was launched with, or the desired one where it never was."""
        return self.handle.launched.spec

    @cached_property
    def config(self) -> StreamsConfig:
        """Its configuration."""
        return self.spec.streams_config()

    @cached_property
    def topology(self) -> FrozenTopology:
        """Its topology."""
        return with_topics_read(load_topology(self.spec.module, self.config), self.config)

    @cached_property
    def admin(self) -> KafkaAdmin:
        """The broker, which has answered."""
        return self.clusters.administrator(self.config)
