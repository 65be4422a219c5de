"""``millrace standby``: copies of the stores of tasks that run elsewhere, which follow the changelogs."""

from millrace.operations.standby.process import Standby, StandbyOptions, run_standby
from millrace.operations.standby.status import StandbyStatus, TaskCopyStatus, read_standby_status

__all__ = ["Standby", "StandbyOptions", "StandbyStatus", "TaskCopyStatus", "read_standby_status", "run_standby"]
