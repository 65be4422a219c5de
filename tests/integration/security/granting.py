"""ACLs of the tests."""

from __future__ import annotations

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from millrace.insight.acls import Acl, NeededAcls, Permission, Resource

_RESOURCES = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.BROKER,
}
_OPERATIONS = {
    Permission.READ: AclOperation.READ,
    Permission.WRITE: AclOperation.WRITE,
    Permission.CREATE: AclOperation.CREATE,
    Permission.DELETE: AclOperation.DELETE,
    Permission.DESCRIBE: AclOperation.DESCRIBE,
    Permission.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
    Permission.ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
}


def bindings(needed: NeededAcls) -> list[AclBinding]:
    """A list of ``millrace acls`` as an administrator grants it."""
    return [each for acl in needed.acls for each in bindings_of(acl, needed.principal)]


def bindings_of(acl: Acl, principal: str) -> list[AclBinding]:
    """One of them."""
    pattern = ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL
    return [
        _binding(_RESOURCES[acl.resource], acl.name, pattern, principal, _OPERATIONS[each]) for each in acl.operations
    ]


def everything(user: str) -> list[AclBinding]:
    """Somebody may do everything."""
    return [
        _binding(
            kind,
            "kafka-cluster" if kind is ResourceType.BROKER else "*",
            ResourcePatternType.LITERAL,
            f"User:{user}",
            AclOperation.ALL,
        )
        for kind in _RESOURCES.values()
    ]


def _binding(
    kind: ResourceType, name: str, pattern: ResourcePatternType, principal: str, operation: AclOperation
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)
