"""Interactive queries: reading the committed state of an application while it runs, from a process of its own."""

from __future__ import annotations

from millrace.query.client import QueryClient
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import Operation

__all__ = ["Operation", "QueryClient", "QueryRefusedError", "Reason"]
