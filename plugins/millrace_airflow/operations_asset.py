"""The asset that operations update, so that what shows their results runs after each of them."""

from __future__ import annotations

from airflow.sdk import Asset

OPERATIONS = Asset(name="millrace_operations", uri="x-millrace://operations", group="millrace")
"""Updated by each operation on an application: give it to a task as one of its ``outlets``."""
