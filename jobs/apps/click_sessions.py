"""Click sessions: one summary of each user's visit, once it is over.

A visit is over when the user has not clicked for half an hour. Its summary is written when that is certain: when the
clicks of the partition have gone on for another five minutes, in which late clicks still count. A click that comes
later than that is dropped and counted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import Consumed, EmitStrategy, Materialized, Produced, SessionWindows, StreamsBuilder
from millrace.dsl import aggregators as agg
from millrace.serdes import JsonSerde, StringSerde, Windowed

CLICKS = "clicks"
SUMMARIES = "session-summaries"

GAP = timedelta(minutes=30)
GRACE = timedelta(minutes=5)

CLICK = JsonSerde(pa.schema({"page": pa.string(), "purchase_cents": pa.int64()}))
SUMMARY = JsonSerde(
    pa.schema(
        {
            "user": pa.string(),
            "start": pa.int64(),
            "end": pa.int64(),
            "clicks": pa.int64(),
            "purchases_cents": pa.int64(),
            "dearest_cents": pa.int64(),
        }
    )
)


def build(builder: StreamsBuilder) -> None:
    """Adds the topology: clicks, keyed by user, to summaries of sessions, keyed by user."""
    clicks = builder.stream(CLICKS, Consumed.with_(StringSerde(), CLICK).with_name("clicks"))
    sessions = (
        clicks.filter(pc.field("page").is_valid(), named="on-a-page")
        .group_by_key()
        .windowed_by(SessionWindows.of_inactivity_gap_and_grace(GAP, GRACE))
        .emit_strategy(EmitStrategy.on_window_close())
        .aggregate(
            agg.struct(clicks=agg.count(), purchases=agg.sum_("purchase_cents"), dearest=agg.max_("purchase_cents")),
            materialized=Materialized.as_("sessions"),
            named="sessions",
        )
        .to_stream(named="closed-sessions")
    )
    sessions.map(_summary, named="summaries").to(
        SUMMARIES, Produced.with_(StringSerde(), SUMMARY).with_name("summaries-out")
    )


def _summary(session: Windowed, totals: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    summary = {
        "user": session.key,
        "start": session.start,
        "end": session.end,
        "clicks": totals["clicks"],
        "purchases_cents": totals["purchases"] or 0,
        "dearest_cents": totals["dearest"],
    }
    return session.key, summary
