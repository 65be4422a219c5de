"""User analytics: what users do on the pages they look at, with who they are, and how active each page is in an hour.

An action belongs to every page that its user viewed within the ten minutes before it. Users are a table; an action of
a user whom it does not hold yet is kept, with the country ``UNKNOWN``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde

VIEWS = "page-views"
ACTIONS = "user-actions"
USERS = "users"
ACTIVITY = "user-activity"
PAGES = "page-activity"

ATTENTION = timedelta(minutes=10)
GRACE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
UNKNOWN = "UNKNOWN"

VIEW = JsonSerde(pa.schema({"view_id": pa.string(), "page": pa.string()}))
ACTION = JsonSerde(pa.schema({"action_id": pa.string(), "kind": pa.string()}))
USER = JsonSerde(pa.schema({"name": pa.string(), "country": pa.string()}))
ACTIVE = JsonSerde(
    pa.schema(
        {
            "view_id": pa.string(),
            "action_id": pa.string(),
            "page": pa.string(),
            "kind": pa.string(),
            "name": pa.string(),
            "country": pa.string(),
        }
    )
)


def build(builder: StreamsBuilder) -> None:
    """Adds the topology: views, actions and users, keyed by user, to activity and to actions by page and hour."""
    key = StringSerde()
    views = builder.stream(VIEWS, Consumed.with_(key, VIEW).with_name("views"))
    actions = builder.stream(ACTIONS, Consumed.with_(key, ACTION).with_name("actions"))
    users = builder.table(
        USERS, Consumed.with_(key, USER).with_name("users"), materialized=Materialized.as_("users-by-id")
    )
    activity = actions.join(
        views,
        _on_page,
        JoinWindows.of_time_difference_and_grace(ATTENTION, GRACE).after(0),
        StreamJoined.with_(key, ACTION, VIEW).with_name("actions-on-pages").with_store_name("actions-on-pages"),
    ).left_join(users, _by_user, joined=Joined.with_(key, ACTIVE).with_name("with-user"))
    activity.to(ACTIVITY, Produced.with_(key, ACTIVE).with_name("activity-out"))
    activity.group_by(pc.field("page"), Grouped.with_(key, ACTIVE).with_name("by-page")).windowed_by(
        TimeWindows.of_size_and_grace(HOUR, GRACE)
    ).count(materialized=Materialized.as_("actions-per-page"), named="actions-per-page").to_stream(
        named="page-updates"
    ).to(
        PAGES,
        Produced.with_(TimeWindowedSerde(key, HOUR // timedelta(milliseconds=1)), LongSerde()).with_name("pages-out"),
    )


def _on_page(action: dict[str, Any], view: dict[str, Any]) -> dict[str, Any]:
    return {**action, **view}


def _by_user(activity: dict[str, Any], user: dict[str, Any] | None) -> dict[str, Any]:
    known = user or {"name": None, "country": None}
    return {**activity, "name": known["name"] or UNKNOWN, "country": known["country"] or UNKNOWN}
