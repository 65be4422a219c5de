"""Audit: each store equals a replay of its changelog, or its differences are listed by key."""

from millrace.operations.audit.audit import AuditOptions, audit
from millrace.operations.audit.report import AuditReport, Difference, StoreAudit

__all__ = ["AuditOptions", "AuditReport", "Difference", "StoreAudit", "audit"]
