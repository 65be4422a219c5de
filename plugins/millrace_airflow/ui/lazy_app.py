"""The pages as Airflow mounts them: made when a person first asks for one."""

from __future__ import annotations

import threading

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from millrace_airflow.ui.gateway import ROOT_APP


class LazyApp:
    """The pages, made with the first request: every component of Airflow loads plugins, only one serves pages."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._making = threading.Lock()

    def _make(self) -> ASGIApp:
        from millrace_airflow.ui.app import airflow_app

        with self._making:
            if self._app is None:
                self._app = airflow_app()
            return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # What it imports takes seconds, in which Airflow answers others.
        app = await run_in_threadpool(self._make) if self._app is None else self._app
        # Whoever mounted this is Airflow's own application; the pages ask its REST interface.
        scope[ROOT_APP] = scope["app"]
        await app(scope, receive, send)
