"""The operator that turns the progress of a stream into events of assets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.execution_time.context import InletEventsAccessor

from millrace.install.files import now_text
from millrace_airflow.assets import STREAMS, stream_asset
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.operators.base import MillraceOperator

if TYPE_CHECKING:
    from millrace.insight.positions import TopicPosition


class MillraceStreamAssetsOperator(MillraceOperator):
    """Emits an event for each output topic of an application that has got more since its last event.

    What was emitted last is read from the asset's own events, so that nothing is lost or doubled by a retry.

    Args:
        application: name of the application; templated.
        kwargs: see :class:`~millrace_airflow.operators.base.MillraceOperator`.
    """

    template_fields: Sequence[str] = ("application",)
    ui_color = "#d9efef"

    def __init__(self, *, application: str, **kwargs: Any) -> None:
        super().__init__(**{"outlets": [STREAMS], **kwargs})
        self.application = application

    def act(self, hook: MillraceHook, context: Context) -> dict[str, Any]:
        """Look, and emit."""
        emitted = {}
        for position in hook.output_positions(self.application):
            before = self._last(position.topic)
            if not has_moved(position, before):
                self.log.info("%s: nothing new", position.topic)
                continue
            extra = {
                "application": self.application,
                "topic": position.topic,
                "offsets": {str(partition): offset for partition, offset in position.offsets.items()},
                "since": dict(before),
                "at": now_text(),
            }
            context["outlet_events"][STREAMS].add(stream_asset(self.application, position.topic), extra=extra)
            emitted[position.topic] = position.total
            self.log.info("%s: %d more offsets", position.topic, position.total - sum(before.values()))
        return {"application": self.application, "emitted": emitted}

    def _last(self, topic: str) -> Mapping[str, int]:
        """The offsets of the last event; empty where there was none."""
        asset = stream_asset(self.application, topic)
        events = InletEventsAccessor(asset_name=asset.name, asset_uri=asset.uri).ascending(False).limit(1)
        for event in events:
            offsets = (event.extra or {}).get("offsets")
            return {str(key): int(value) for key, value in offsets.items()} if isinstance(offsets, Mapping) else {}
        return {}


def has_moved(position: TopicPosition, before: Mapping[str, int]) -> bool:
    """Whether a topic has got records since; a topic that was created again counts too. Pure.

    Args:
        position: where it is now.
        before: offsets of the last event by partition.
    """
    now = {str(partition): offset for partition, offset in position.offsets.items()}
    return any(offset != before.get(partition, 0) for partition, offset in now.items())
