"""ACLs of the tests."""

from __future__ import annotations

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType


def everything(user: str) -> list[AclBinding]:
    """Somebody may do everything."""
    return [
        AclBinding(
            kind,
            "kafka-cluster" if kind is ResourceType.BROKER else "*",
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID)
    ]
