"""An application's output topics as Airflow's assets: batch DAGs can be scheduled on the progress of a stream."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

STREAMS = AssetAlias("millrace_streams")
"""Of all assets of streams: events come through it, so that no task emits where nothing has moved."""
OPERATIONS = Asset(name="millrace operations", uri="millrace://operations", group="millrace")
"""Updated by each operation on an application, so that what shows their results runs after each of them."""


def stream_asset(application: str, topic: str) -> Asset:
    """The asset that stands for an output topic of an application.

    Its events come from the DAG ``millrace_stream_assets``, at most one in each of its runs, and only where the topic
    has got more. ``extra`` has ``application``, ``topic``, ``offsets`` (the next offset by partition: everything before
    is committed or aborted for good), ``since`` (the offsets of the event before, empty in the first one) and ``at``
    (ISO 8601, UTC), so that a batch DAG knows what to read: from ``since`` to ``offsets``, committed records only.

    Args:
        application: name of the application.
        topic: name of the topic.
    """
    return Asset(name=f"millrace {application} {topic}", uri=f"millrace://{application}/{topic}", group="millrace")
