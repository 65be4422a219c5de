"""The check that input and changelog topics are still those that the offsets and the state belong to."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.errors import StateError
from millrace.kafka.admin import KafkaAdmin

LOST_CHANGELOG_REMEDY = (
    "find out who deleted it; the stores that are on disk have no copy any more: restore a savepoint, or reset the "
    "application, so that its stores are built again from the input"
)


def check_input_topics(
    admin: KafkaAdmin,
    topic_ids: Mapping[str, str],
    application_id: str,
    *,
    changelog_ids: Mapping[str, str] | None = None,
    global_topic_ids: Mapping[str, str] | None = None,
) -> None:
    """Compares the topics with those at the start of the application.

    A changelog that was deleted has no copy of the stores any more; one that was created again would have a part, which
    a later restoration would take for all.

    Spark and the consumers know topics by their names only: under the name of a deleted topic they go on reading the
    new one, at an offset that belongs to the old one. An id never comes back, so what was read before a check that
    passes came from the right topic.

    Args:
        admin: the cluster.
        topic_ids: UUID of each topic as of the application's start.
        application_id: for the message.
        changelog_ids: UUID of each changelog topic as of the start.
        global_topic_ids: the same of the topics of global stores.

    Raises:
        StateError: a topic was deleted, perhaps created again.
        MillraceError: the broker could not be asked.
    """
    changelogs, global_ids = changelog_ids or {}, global_topic_ids or {}
    found = admin.describe_topics([*topic_ids, *changelogs, *global_ids])

    def lost_of(ids: Mapping[str, str]) -> list[str]:
        return [
            f"{name} (was {topic_id}, is {found[name].topic_id if name in found else 'gone'})"
            for name, topic_id in ids.items()
            if name not in found or found[name].topic_id != topic_id
        ]

    if lost := lost_of(topic_ids):
        raise StateError(
            f"Input topics of {application_id} were deleted while it ran: {', '.join(lost)}.",
            remedy="its offsets and state belong to the old ones: reset the application",
        )
    if lost := lost_of(changelogs):
        raise StateError(
            f"Changelog topics of {application_id} were deleted while it ran: {', '.join(lost)}.",
            remedy=LOST_CHANGELOG_REMEDY,
        )
    if lost := lost_of(global_ids):
        raise StateError(
            f"Topics of global stores of {application_id} were deleted while it ran: {', '.join(lost)}.",
            remedy="start the application again: its global stores are built again from what their topics have now",
        )
