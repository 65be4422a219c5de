"""Notifiers."""

from millrace_airflow.notifications.millrace import MillraceNotifier

__all__ = ["MillraceNotifier"]
