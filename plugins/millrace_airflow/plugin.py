"""What Airflow loads: the page Streams and its place in the navigation."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from millrace_airflow.ui.lazy_app import LazyApp

URL_PREFIX = "/millrace"


def _page() -> str:
    """Where the browser finds it, also where Airflow does not stand at the root of its host."""
    path = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    # The slash at the end belongs to it: the page's own links are below.
    return f"{path}{URL_PREFIX}/"


class MillracePlugin(AirflowPlugin):  # type: ignore[misc]
    """The page Streams."""

    name = "millrace"
    fastapi_apps: list[dict[str, Any]] = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "Streams"}]
    external_views: list[dict[str, Any]] = [
        {"name": "Streams", "href": _page(), "destination": "nav", "url_route": "streams", "nav_top_level": True}
    ]
