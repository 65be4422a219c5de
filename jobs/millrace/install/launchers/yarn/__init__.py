"""Drivers and executors as containers of YARN, submitted by ``spark-submit`` in cluster mode."""

from millrace.install.launchers.yarn.application import YarnApplication, read_report
from millrace.install.launchers.yarn.launcher import YarnLauncher, application_id

__all__ = ["YarnApplication", "YarnLauncher", "application_id", "read_report"]
