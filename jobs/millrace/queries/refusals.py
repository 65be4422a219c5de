"""The refusals of queries: one error for all reasons, each with its HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from millrace.errors import QueryError


class Reason(StrEnum):
    """The reason why a query is refused; ``status_code`` is its HTTP status."""

    status_code: int

    BAD_REQUEST = "bad_request", 400
    UNAUTHORIZED = "unauthorized", 401
    STORE_UNKNOWN = "store_unknown", 404
    KEY_NOT_FOUND = "key_not_found", 404
    STORE_NOT_QUERYABLE = "store_not_queryable", 409
    NOT_HERE = "not_here", 421
    RESTORING = "restoring", 503
    NOT_RUNNING = "not_running", 503

    def __new__(cls, value: str, status_code: int = 500) -> Reason:
        """Returns a member equal to ``value`` that carries its ``status_code``."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.status_code = status_code
        return member


class QueryRefusedError(QueryError):
    """A query was refused.

    Args:
        reason: why.
        message: what is the case, naming store, task and host.
        remedy: what the caller should do.
        details: more facts for programs, JSON-compatible: ``remaining``, ``owner``, ``retry_after_s``, ...
    """

    def __init__(
        self, reason: Reason, message: str, *, remedy: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason
        self.details = dict(details or {})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.reason, self.message, self.remedy, self.details))

    def to_mapping(self) -> dict[str, Any]:
        """Returns the error as JSON-compatible data."""
        return {"error": str(self.reason), "message": self.message, "remedy": self.remedy, **self.details}


def _rebuild(reason: Reason, message: str, remedy: str, details: Mapping[str, Any]) -> QueryRefusedError:
    return QueryRefusedError(reason, message, remedy=remedy, details=details)
