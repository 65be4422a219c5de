"""Triggers."""

from millrace_airflow.triggers.supervise import EventKind, SuperviseTrigger

__all__ = ["EventKind", "SuperviseTrigger"]
