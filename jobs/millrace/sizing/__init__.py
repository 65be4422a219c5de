"""The sizing of an application: windows of a record, state and changelogs, joins, transactions, recovery.

Plain arithmetic, with the formula and its source beside each function; ``millrace plan`` puts it together for a whole
topology. Sizes are bytes, rates are per second, event times are milliseconds, other times are seconds.
"""

from __future__ import annotations

from millrace.sizing.eos import TRANSACTION_S, EosOverhead, calculate_eos_overhead
from millrace.sizing.joins import JoinCosts, JoinPerformance, estimate_join_performance
from millrace.sizing.logs import LogSize, estimate_changelog_size, log_record_bytes
from millrace.sizing.recovery import RecoveryTime, estimate_recovery_time, estimate_restore_time
from millrace.sizing.state import StateSize, estimate_state_size
from millrace.sizing.updates import distinct_keys, live_windows
from millrace.sizing.windows import TimeWindow, calculate_hopping_window, calculate_tumbling_window

__all__ = [
    "TRANSACTION_S",
    "EosOverhead",
    "JoinCosts",
    "JoinPerformance",
    "LogSize",
    "RecoveryTime",
    "StateSize",
    "TimeWindow",
    "calculate_eos_overhead",
    "calculate_hopping_window",
    "calculate_tumbling_window",
    "distinct_keys",
    "estimate_changelog_size",
    "estimate_join_performance",
    "estimate_recovery_time",
    "estimate_restore_time",
    "estimate_state_size",
    "live_windows",
    "log_record_bytes",
]
