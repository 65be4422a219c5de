"""The application to reset: its configuration and topology, and what the cluster says of it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property

from millrace.config import StreamsConfig
from millrace.driver.matched_topics import with_topics_read
from millrace.driver.status import ApplicationStatus
from millrace.dsl.loading import load_topology
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.named_cluster import NamedCluster, config_of
from millrace.operations.reset.resources import ApplicationResources, resources_of
from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True, kw_only=True)
class KnownApplication:
    """An application and what is known of it.

    Args:
        config: its configuration, which says where what is reset is: that of its last launch.
        topology: of what starts next; ``None`` where it has no specification here.
        statuses: the status of every application of the cluster.
    """

    config: StreamsConfig
    topology: FrozenTopology | None
    statuses: dict[str, ApplicationStatus]

    @property
    def application_id(self) -> str:
        """Its id."""
        return self.config.application_id

    @property
    def status(self) -> ApplicationStatus | None:
        """Its own record in the status topic."""
        return self.statuses.get(self.application_id)

    @cached_property
    def current(self) -> ApplicationResources:
        """The resources of the topology that starts next: that of the specification, or the one that ran last."""
        if self.topology is not None:
            return resources_of(self.application_id, self.topology, None)
        return resources_of(self.application_id, None, self.status)

    @cached_property
    def everything(self) -> ApplicationResources:
        """The resources of either topology."""
        return resources_of(self.application_id, self.topology, self.status)


def known_application(application: Application, cluster: NamedCluster | None = None) -> KnownApplication:
    """Returns the known resources of an application.

    Raises:
        OperationError: nothing is: it has neither a specification here nor a record in the status topic.
        MillraceError: the specification is wrong, its topology cannot be built, or the broker does not answer.
    """
    config = config_of(application, cluster)
    connection = Connection.of(config)
    statuses = connection.statuses()
    topology = None
    if cluster is None:
        following = application.following.spec
        config_of_next = following.streams_config()
        topology = with_topics_read(load_topology(following.module, config_of_next), config_of_next)
    if topology is None and application.name not in statuses:
        near = difflib.get_close_matches(application.name, statuses, n=3, cutoff=0.5)
        raise OperationError(
            f"Nothing is known of application {application}: it has neither a specification here nor a record in the "
            "status topic. Nothing was changed.",
            remedy=f"name one of these: {', '.join(near or sorted(statuses)) or 'there is none'}",
        )
    return KnownApplication(config=config, topology=topology, statuses=statuses)
