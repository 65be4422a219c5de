"""Makes the plugin known to an Airflow that finds it by its plugins folder; the rest is an installed package."""

from millrace_airflow.plugin import MillracePlugin

__all__ = ["MillracePlugin"]
