"""Hooks."""

from millrace_airflow.hooks.millrace import MillraceHook

__all__ = ["MillraceHook"]
