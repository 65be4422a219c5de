"""Interactive queries: reading the committed state of an application while it runs, from a process of its own."""

from __future__ import annotations

from millrace.queries.client import QueryClient
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Operation

__all__ = ["Operation", "QueryClient", "QueryRefusedError", "Reason"]
