"""Triggers."""

from millrace_airflow.triggers.condition import ConditionTrigger
from millrace_airflow.triggers.supervise import EventKind, SuperviseTrigger

__all__ = ["ConditionTrigger", "EventKind", "SuperviseTrigger"]
