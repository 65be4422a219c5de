"""What an application's user must be allowed to do on the broker, derived from its topology and configuration."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError
from millrace.install.spec import ApplicationSpec
from millrace.kafka.topics import STATUS_TOPIC
from millrace.launch.broker_checks import output_topics
from millrace.operations.dead_letters.markers import MARKER_TOPIC, replay_transactional_id
from millrace.supervise.canary.clone import clone_of
from millrace.topology.labels import written_topic
from millrace.topology.layout import ApplicationTopics
from millrace.topology.source_topics import literal_prefix, patterns_of
from millrace.topology.topology import FrozenTopology

READERS_PREFIX = "millrace-"
"""How the group names of consumers begin that have no group: a client of the broker needs one."""


class Resource(StrEnum):
    """Kinds of resources, as ``kafka-acls.sh`` has options for them."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


class Permission(StrEnum):
    """Operations, as ``kafka-acls.sh`` calls them. READ, WRITE and DELETE include the right to describe."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


class Purpose(StrEnum):
    """What a permission is needed for."""

    RUN = "run"
    OPERATE = "operate"
    """Deploying, reset, savepoints, compaction, take-over, dead-letter records, the export of metrics."""
    CANARY = "canary"
    """Running its canary, comparing both, and deleting what is the canary's."""


@dataclass(frozen=True, kw_only=True)
class Acl:
    """Operations that are to be allowed on one resource, or on all whose names begin alike.

    Args:
        resource: its kind.
        name: its name.
        prefixed: whether the name is the beginning of names.
        operations: what is to be allowed.
        purpose: what for.
        reason: the same for people.
    """

    resource: Resource
    name: str
    prefixed: bool = False
    operations: tuple[Permission, ...]
    purpose: Purpose
    reason: str

    def arguments(self) -> list[str]:
        """The arguments of ``kafka-acls.sh`` that say the same."""
        named = [f"--{self.resource}"] if self.resource is Resource.CLUSTER else [f"--{self.resource}", self.name]
        pattern = ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        return [*(part for each in self.operations for part in ("--operation", each)), *named, *pattern]


@dataclass(frozen=True, kw_only=True)
class NeededAcls:
    """What an application's user must be allowed.

    Args:
        application: its ``application.id``.
        bootstrap_servers: where.
        principal: the user, as the broker calls it.
        acls: the list.
        notes: what cannot be known before records come.
    """

    application: str
    bootstrap_servers: str
    principal: str
    acls: tuple[Acl, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The same as JSON-compatible data."""
        return asdict(self)

    def commands(self) -> list[str]:
        """One command of ``kafka-acls.sh`` each; ``admin.properties`` is the login of an operator who may alter
        ACLs."""
        connection = ["--bootstrap-server", self.bootstrap_servers, "--command-config", "admin.properties"]
        head = ["kafka-acls.sh", *connection, "--add", "--allow-principal", self.principal]
        return [shlex.join([*head, *acl.arguments()]) for acl in self.acls]


def needed_acls(spec: ApplicationSpec, *, principal: str | None = None, purpose: Purpose | None = None) -> NeededAcls:
    """The least that lets an application work; needs no broker.

    Internal topics and transactional ids are allowed by their beginning, ``<application.id>-``: a changed topology
    then needs no others. Since Kafka 2.8 whoever may write to a topic may do so idempotently (KIP-679), so nothing is
    needed on the cluster for that.

    Args:
        spec: the specification.
        principal: the user; by default ``User:`` and ``sasl.username``.
        purpose: only what is needed for that.

    Raises:
        ConfigurationError: there is no user name in the configuration and none was given, or the module cannot be
            imported.
        TopologyError: the topology cannot be built.
    """
    config = spec.streams_config()
    topology = load_topology(spec.module, config)
    name = config.client_settings("admin.").get("sasl.username")
    if principal is None and name is None:
        raise ConfigurationError(
            f"The configuration of {spec.name} names no user: it has no sasl.username.",
            remedy="give --principal: that of a certificate is its distinguished name, as in User:CN=payments; "
            "that of a token is its claim sub",
        )
    acls = [
        *_running(topology, config),
        *_operating(spec, topology, config),
        *_canary(spec.name, topology.external_outputs),
    ]
    return NeededAcls(
        application=config.application_id,
        bootstrap_servers=config.bootstrap_servers,
        principal=principal or f"User:{name}",
        acls=tuple(acl for acl in acls if purpose in (None, acl.purpose)),
        notes=tuple(
            f"{sink.name} chooses topics record by record ({written_topic(sink)}): allow Write and DescribeConfigs on "
            "each of them"
            for sink in topology.choosing_sinks
        ),
    )


def _running(topology: FrozenTopology, config: StreamsConfig) -> Iterator[Acl]:
    own = f"{config.application_id}-"
    for topic in sorted(topology.external_inputs):
        yield _topic(topic, Permission.READ, Permission.DESCRIBE_CONFIGS, reason="read input")
    for source in patterns_of(topology):
        assert source.pattern is not None
        prefix = literal_prefix(source.pattern)
        yield _acl(
            Resource.TOPIC,
            prefix or "*",
            Permission.READ,
            Permission.DESCRIBE_CONFIGS,
            prefixed=bool(prefix),
            reason=f"read what matches {source.pattern.pattern}",
        )
    for topic in output_topics(topology, config):
        yield _topic(topic, Permission.WRITE, Permission.DESCRIBE_CONFIGS, reason="write output")
    if ApplicationTopics(topology, config.application_id).own:
        purges = (Permission.DELETE,) if topology.repartition_topics else ()
        yield _acl(
            Resource.TOPIC,
            own,
            Permission.CREATE,
            Permission.READ,
            Permission.WRITE,
            *purges,
            Permission.DESCRIBE_CONFIGS,
            prefixed=True,
            reason="internal topics" + (", and deleting processed records of them" if purges else ""),
        )
    yield _topic(STATUS_TOPIC, Permission.CREATE, Permission.READ, Permission.WRITE, reason="publish the status")
    yield _acl(Resource.GROUP, config.application_id, Permission.READ, reason="committed offsets")
    yield _acl(
        Resource.GROUP,
        READERS_PREFIX,
        Permission.DESCRIBE,
        prefixed=True,
        reason="read without a group: the client library asks for a coordinator nevertheless",
    )
    exactly_once = config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    yield _acl(
        Resource.TRANSACTIONAL_ID,
        own,
        Permission.WRITE,
        prefixed=True,
        reason="transactions of tasks and of the driver" if exactly_once else "the driver's transactions",
    )
    yield _acl(Resource.CLUSTER, "kafka-cluster", Permission.DESCRIBE_CONFIGS, reason="read the broker's limits")


def _operating(spec: ApplicationSpec, topology: FrozenTopology, config: StreamsConfig) -> Iterator[Acl]:
    for declared in spec.topics:
        yield _topic(declared.name, Permission.CREATE, purpose=Purpose.OPERATE, reason="created by a deployment")
    yield _acl(
        Resource.TOPIC,
        f"{config.application_id}-",
        *([] if topology.repartition_topics else [Permission.DELETE]),
        Permission.ALTER_CONFIGS,
        prefixed=True,
        purpose=Purpose.OPERATE,
        reason="reset, restoring savepoints, compaction",
    )
    yield _acl(Resource.CLUSTER, "kafka-cluster", Permission.DESCRIBE, purpose=Purpose.OPERATE, reason="sizes of logs")
    dead_letter_topic = config.errors_dead_letter_queue_topic_name
    if dead_letter_topic is None:
        return
    yield _topic(
        dead_letter_topic,
        Permission.READ,
        Permission.DELETE,
        purpose=Purpose.OPERATE,
        reason="list and purge dead-letter records",
    )
    yield _topic(
        MARKER_TOPIC,
        Permission.CREATE,
        Permission.READ,
        Permission.WRITE,
        Permission.DESCRIBE_CONFIGS,
        purpose=Purpose.OPERATE,
        reason="mark replayed dead-letter records",
    )
    for topic in sorted(topology.external_inputs):
        yield _topic(topic, Permission.WRITE, purpose=Purpose.OPERATE, reason="replay dead-letter records")
    yield _acl(
        Resource.TRANSACTIONAL_ID,
        replay_transactional_id(dead_letter_topic),
        Permission.WRITE,
        purpose=Purpose.OPERATE,
        reason="replay dead-letter records",
    )


def _canary(application: str, outputs: Iterable[str]) -> Iterator[Acl]:
    clone = clone_of(application)
    for topic in sorted(outputs):
        yield _topic(topic, Permission.READ, purpose=Purpose.CANARY, reason="compare what both have written")
    yield _acl(
        Resource.TOPIC,
        f"{clone}-",
        Permission.CREATE,
        Permission.READ,
        Permission.WRITE,
        Permission.DELETE,
        Permission.DESCRIBE_CONFIGS,
        prefixed=True,
        purpose=Purpose.CANARY,
        reason="its internal topics and its copies of the outputs",
    )
    yield _acl(
        Resource.GROUP,
        clone,
        Permission.READ,
        Permission.DELETE,
        purpose=Purpose.CANARY,
        reason="its committed offsets",
    )
    yield _acl(
        Resource.TRANSACTIONAL_ID,
        f"{clone}-",
        Permission.WRITE,
        prefixed=True,
        purpose=Purpose.CANARY,
        reason="its transactions",
    )


def _topic(name: str, *operations: Permission, reason: str, purpose: Purpose = Purpose.RUN) -> Acl:
    return _acl(Resource.TOPIC, name, *operations, reason=reason, purpose=purpose)


def _acl(
    resource: Resource,
    name: str,
    *operations: Permission,
    reason: str,
    purpose: Purpose = Purpose.RUN,
    prefixed: bool = False,
) -> Acl:
    return Acl(resource=resource, name=name, prefixed=prefixed, operations=operations, purpose=purpose, reason=reason)
