"""Cases of the alert rules: series, and which alerts fire; written out for promtool.

A case names everything that fires: what it does not name must be silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

APP = 'application_id="orders"'
TASK = f'{APP},subtopology="0",task="0_0"'
INPUT = f'{APP},subtopology="0",topic="in",partition="0"'
Series = Mapping[str, str]

RUNNING: Series = {
    f'millrace_stream_application_state{{{APP},state="RUNNING"}}': "1x120",
    f"millrace_stream_driver_epoch{{{APP}}}": "3x120",
    f"millrace_stream_paused{{{APP}}}": "0x120",
    f"millrace_stream_task_process_total{{{TASK}}}": "0+600x120",
    f"millrace_stream_task_dead_letters_total{{{TASK}}}": "0x120",
    f'millrace_stream_task_dropped_records_total{{{TASK},reason="late"}}': "0x120",
    f'millrace_stream_task_transactions_total{{{TASK},outcome="committed"}}': "0+60x120",
    f'millrace_stream_task_transactions_total{{{TASK},outcome="aborted"}}': "0x120",
    f'millrace_stream_task_transactions_total{{{TASK},outcome="fenced"}}': "0x120",
    f"millrace_stream_task_restore_remaining_records{{{TASK}}}": "0x120",
    f"millrace_stream_task_restore_records_per_second{{{TASK}}}": "0x120",
    f"millrace_consumer_records_lag{{{INPUT}}}": "0x120",
    f"millrace_consumer_last_stable_offset{{{INPUT}}}": "0+600x120",
    f"millrace_consumer_high_watermark{{{INPUT}}}": "0+600x120",
    f"millrace_consumer_held_back_seconds{{{INPUT}}}": "0x120",
    f'millrace_stream_last_commit_timestamp_seconds{{{APP},subtopology="0"}}': "0+60x120",
    f"millrace_stream_broker_last_answer_timestamp_seconds{{{APP}}}": "0+60x120",
    'up{job="millrace-applications",application_id="orders"}': "1x120",
}
EXPORTED: Series = {
    f"millrace_export_timestamp_seconds{{{APP}}}": "0+60x120",
    f'millrace_export_part_ok{{{APP},part="lag"}}': "1x120",
    f"millrace_application_wanted{{{APP}}}": "1x120",
    f"millrace_application_healthy{{{APP}}}": "1x120",
    f'millrace_application_verdict{{{APP},verdict="healthy",reason="working"}}': "1x120",
    f"millrace_application_launched_timestamp_seconds{{{APP}}}": "0x120",
    f"millrace_supervision_last_look_timestamp_seconds{{{APP}}}": "0+60x120",
    f'millrace_operations{{{APP},operation="reset",result="completed"}}': "1x120",
    f'millrace_operations{{{APP},operation="reset",result="failed"}}': "0x120",
    f"millrace_savepoint_interval_seconds{{{APP}}}": "3600x120",
    f"millrace_savepoint_last_timestamp_seconds{{{APP}}}": "0x60 3600x60",
    f"millrace_state_filesystem_free_bytes{{{APP}}}": "500e9x120",
    f"millrace_state_filesystem_size_bytes{{{APP}}}": "1000e9x120",
    f"millrace_recovery_standby_up{{{APP}}}": "1x120",
    f"millrace_recovery_standby_lag_records{{{TASK}}}": "50x120",
    f"millrace_recovery_standby_acceptable_lag_records{{{APP}}}": "10000x120",
    f'millrace_changelog_size_bytes{{{APP},topic="c"}}': "1e9x120",
    f'millrace_changelog_dirty_ratio{{{APP},topic="c"}}': "0.3x120",
    f'millrace_changelog_dirty_threshold{{{APP},topic="c"}}': "0.5x120",
    f"millrace_broker_transaction_oldest_open_seconds{{{APP}}}": "0x120",
    f"millrace_broker_transaction_timeout_seconds{{{APP}}}": "60x120",
    f'millrace_consumer_group_lag_records{{{APP},topic="in",partition="0"}}': "0x120",
    f'millrace_recovery_estimated_seconds{{{APP},restore_from="changelog"}}': "30x120",
    f"millrace_recovery_objective_seconds{{{APP}}}": "120x120",
    f'millrace_recovery_drill_duration_seconds{{{APP},kind="worker"}}': "8x120",
}
WELL: Series = {**RUNNING, **EXPORTED}


@dataclass(frozen=True)
class Case:
    """One case.

    Args:
        text: what happens, as a sentence.
        changed: series beside, or instead of, those of an application that is well. No values: the series is absent.
        firing: the alerts that fire, by minute; at other minutes nothing is looked at.
    """

    text: str
    changed: Series
    firing: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def series(self) -> Series:
        """All series that are there."""
        return {name: values for name, values in {**WELL, **self.changed}.items() if values}


CASES: tuple[Case, ...] = (
    Case("an application that is well raises nothing", {}, {1: [], 30: [], 45: []}),
    Case(
        "nothing is raised by the lag of 1 that a transaction's marker leaves, on an input where nothing comes",
        {
            f"millrace_consumer_records_lag{{{INPUT}}}": "1x120",
            f"millrace_stream_task_process_total{{{TASK}}}": "600x120",
        },
        {30: [], 45: []},
    ),
    Case(
        "records wait and none is processed",
        {
            f"millrace_consumer_records_lag{{{INPUT}}}": "0x20 100x100",
            f"millrace_stream_task_process_total{{{TASK}}}": "0+600x20 12000x100",
        },
        {20: [], 24: [], 40: ["MillraceNoProgress"]},
    ),
    Case(
        "a single record is stuck, which only the export tells from a marker",
        {
            f"millrace_consumer_records_lag{{{INPUT}}}": "1x120",
            f'millrace_consumer_group_lag_records{{{APP},topic="in",partition="0"}}': "1x120",
            f"millrace_stream_task_process_total{{{TASK}}}": "600x120",
        },
        {40: ["MillraceNoProgress"]},
    ),
    Case(
        "records wait while the application is paused by hand",
        {
            f"millrace_consumer_records_lag{{{INPUT}}}": "100x120",
            f"millrace_stream_task_process_total{{{TASK}}}": "600x120",
            f"millrace_stream_paused{{{APP}}}": "1x120",
        },
        {40: []},
    ),
    Case(
        "more comes in than is processed",
        {f"millrace_consumer_records_lag{{{INPUT}}}": "0x20 0+6000x100"},
        {20: [], 60: ["MillraceLagGrowing"]},
    ),
    Case(
        "a burst is worked off", {f"millrace_consumer_records_lag{{{INPUT}}}": "90000-1500x60 0x60"}, {20: [], 40: []}
    ),
    Case(
        "the driver died",
        {
            f"millrace_application_healthy{{{APP}}}": "1x30 0x90",
            'up{job="millrace-applications",application_id="orders"}': "1x30 0x90",
            f"millrace_stream_task_process_total{{{TASK}}}": "0+600x30 _x90",
            f"millrace_consumer_records_lag{{{INPUT}}}": "0x30 _x90",
        },
        {30: [], 33: ["MillraceNotProgressing"], 50: ["MillraceApplicationDown", "MillraceNotProgressing"]},
    ),
    Case(
        "the broker was killed, and the driver asks it again and again",
        {
            f"millrace_stream_broker_last_answer_timestamp_seconds{{{APP}}}": "0+60x30 1800x90",
            f'millrace_stream_last_commit_timestamp_seconds{{{APP},subtopology="0"}}': "0+60x30 1800x90",
        },
        {30: [], 33: ["MillraceBrokerUnreachable"]},
    ),
    Case(
        "heartbeats come every ten seconds",
        {f"millrace_stream_broker_last_answer_timestamp_seconds{{{APP}}}": "-10+60x120"},
        {30: []},
    ),
    Case(
        "a worker is stopped in the middle of a batch",
        {
            f"millrace_consumer_records_lag{{{INPUT}}}": "0x30 500x90",
            f'millrace_stream_last_commit_timestamp_seconds{{{APP},subtopology="0"}}': "0+60x30 1800x90",
        },
        {30: [], 34: ["MillraceNotProgressing"]},
    ),
    Case(
        "nothing has come, so nothing was committed for an hour",
        {f'millrace_stream_last_commit_timestamp_seconds{{{APP},subtopology="0"}}': "0x120"},
        {60: []},
    ),
    Case(
        "the driver is stopped, as the export has seen",
        {
            f'millrace_application_verdict{{{APP},verdict="healthy",reason="working"}}': "1x30 _x90",
            f'millrace_application_verdict{{{APP},verdict="stalled",reason="process_stopped"}}': "_x31 1x90",
        },
        {30: [], 33: ["MillraceNotProgressing"]},
    ),
    Case(
        "another installation has taken over",
        {
            f"millrace_application_healthy{{{APP}}}": "1x30 0x90",
            f'millrace_application_verdict{{{APP},verdict="healthy",reason="working"}}': "1x30 _x90",
            f'millrace_application_verdict{{{APP},verdict="fenced",reason="fenced"}}': "_x31 1x90",
        },
        {30: [], 33: ["MillraceFenced"], 50: ["MillraceFenced"]},
    ),
    Case(
        "a reader waits behind a transaction that upstream has left open",
        {
            f"millrace_consumer_last_stable_offset{{{INPUT}}}": "0+600x30 18000x90",
            f"millrace_consumer_held_back_seconds{{{INPUT}}}": "0x30 0+60x90",
            f'millrace_application_verdict{{{APP},verdict="healthy",reason="working"}}': "1x30 _x90",
            f'millrace_application_verdict{{{APP},verdict="stalled",reason="held_back"}}': "_x31 1x90",
        },
        {30: [], 40: ["MillraceReaderHeldBack"]},
    ),
    Case(
        "transactions of upstream take their time, each for less than a minute",
        {f"millrace_consumer_held_back_seconds{{{INPUT}}}": "45x120"},
        {40: []},
    ),
    Case(
        "it was stopped as planned",
        {
            f"millrace_application_wanted{{{APP}}}": "0x120",
            f"millrace_application_healthy{{{APP}}}": "0x120",
            f"millrace_supervision_last_look_timestamp_seconds{{{APP}}}": "0x120",
            **dict.fromkeys(RUNNING, ""),
        },
        {30: [], 45: []},
    ),
    Case(
        "supervision ended, the application goes on",
        {f"millrace_supervision_last_look_timestamp_seconds{{{APP}}}": "0+60x30 1800x90"},
        {30: [], 50: ["MillraceSupervisorGone"]},
    ),
    Case(
        "one transaction of a hundred is aborted",
        {f'millrace_stream_task_transactions_total{{{TASK},outcome="aborted"}}': "0+0.6x120"},
        {30: [], 45: []},
    ),
    Case(
        "a tenth of the transactions is aborted",
        {f'millrace_stream_task_transactions_total{{{TASK},outcome="aborted"}}': "0+7x120"},
        {30: ["MillraceAbortedTransactions"]},
    ),
    Case(
        "a transaction is open for longer than its timeout",
        {f"millrace_broker_transaction_oldest_open_seconds{{{APP}}}": "0x20 0+60x100"},
        {20: [], 40: ["MillraceHungTransaction"]},
    ),
    Case(
        "a long transaction stays within its timeout",
        {f"millrace_broker_transaction_oldest_open_seconds{{{APP}}}": "59x120"},
        {40: []},
    ),
    Case(
        "tasks fence each other again and again",
        {f'millrace_stream_task_transactions_total{{{TASK},outcome="fenced"}}': "0+1x120"},
        {30: ["MillraceFencingStorm"]},
    ),
    Case(
        "drivers take over from each other, each at another address",
        {
            f"millrace_stream_driver_epoch{{{APP}}}": "",
            f'millrace_stream_driver_epoch{{{APP},instance="a"}}': "3x30 _x90",
            f'millrace_stream_driver_epoch{{{APP},instance="b"}}': "_x31 4x2 5x2 6x85",
        },
        {30: [], 40: ["MillraceFencingStorm"], 70: []},
    ),
    Case(
        "one restart is no storm",
        {
            f"millrace_stream_driver_epoch{{{APP}}}": "3x30 4x90",
            f'millrace_stream_task_transactions_total{{{TASK},outcome="fenced"}}': "0x30 4x90",
        },
        {35: []},
    ),
    Case(
        "a record goes to the dead-letter topic",
        {f"millrace_stream_task_dead_letters_total{{{TASK}}}": "0x30 1x90"},
        {29: [], 32: ["MillraceDeadLetters"], 60: []},
    ),
    Case(
        "the first batch of a task has a dead-letter record, so that its counter begins at 1",
        {f"millrace_stream_task_dead_letters_total{{{TASK}}}": "_x30 1x90"},
        {29: [], 32: ["MillraceDeadLetters"], 60: []},
    ),
    Case(
        "a twentieth of the records is late",
        {f'millrace_stream_task_dropped_records_total{{{TASK},reason="late"}}': "0+30x120"},
        {5: [], 40: ["MillraceLateRecords"]},
    ),
    Case(
        "records without a key are dropped, and few are late",
        {
            f'millrace_stream_task_dropped_records_total{{{TASK},reason="null_key"}}': "0+300x120",
            f'millrace_stream_task_dropped_records_total{{{TASK},reason="late"}}': "0+3x120",
        },
        {40: []},
    ),
    Case(
        "a restoration takes longer than the objective",
        {
            f"millrace_stream_task_restore_remaining_records{{{TASK}}}": "1e7x120",
            f"millrace_stream_task_restore_records_per_second{{{TASK}}}": "20000x120",
        },
        {40: ["MillraceRestoreTooSlow"]},
    ),
    Case(
        "a restoration that keeps the objective, and the lag meanwhile",
        {
            f"millrace_stream_task_restore_remaining_records{{{TASK}}}": "1e6x120",
            f"millrace_stream_task_restore_records_per_second{{{TASK}}}": "20000x120",
            f"millrace_consumer_records_lag{{{INPUT}}}": "100x120",
            f"millrace_stream_task_process_total{{{TASK}}}": "600x120",
        },
        {40: []},
    ),
    Case(
        "a copy of the standby is behind",
        {f"millrace_recovery_standby_lag_records{{{TASK}}}": "20000x120"},
        {40: ["MillraceStandbyBehind"]},
    ),
    Case(
        "the standby ended",
        {
            f"millrace_recovery_standby_up{{{APP}}}": "1x20 0x100",
            f"millrace_recovery_standby_lag_records{{{TASK}}}": "50x20 _x100",
        },
        {30: [], 50: ["MillraceStandbyBehind"]},
    ),
    Case(
        "the estimate comes near the objective",
        {f'millrace_recovery_estimated_seconds{{{APP},restore_from="changelog"}}': "100x120"},
        {5: [], 40: ["MillraceRecoveryObjectiveAtRisk"]},
    ),
    Case(
        "a standby makes up for a long restoration",
        {
            f'millrace_recovery_estimated_seconds{{{APP},restore_from="changelog"}}': "100x120",
            f'millrace_recovery_estimated_seconds{{{APP},restore_from="standby"}}': "3x120",
        },
        {40: []},
    ),
    Case(
        "the last drill took longer than the objective",
        {f'millrace_recovery_drill_duration_seconds{{{APP},kind="worker"}}': "150x120"},
        {40: ["MillraceRecoveryObjectiveAtRisk"]},
    ),
    Case(
        "savepoints are not taken any more",
        {
            f"millrace_savepoint_interval_seconds{{{APP}}}": "600x120",
            f"millrace_savepoint_last_timestamp_seconds{{{APP}}}": "600x120",
        },
        {25: [], 60: ["MillraceSavepointTooOld"]},
    ),
    Case(
        "savepoints are wanted and there has never been one",
        {
            f"millrace_savepoint_interval_seconds{{{APP}}}": "600x120",
            f"millrace_savepoint_last_timestamp_seconds{{{APP}}}": "",
        },
        {15: [], 60: ["MillraceSavepointTooOld"]},
    ),
    Case(
        "nobody wants savepoints",
        {
            f"millrace_savepoint_interval_seconds{{{APP}}}": "",
            f"millrace_savepoint_last_timestamp_seconds{{{APP}}}": "",
        },
        {45: []},
    ),
    Case(
        "the disk is nearly full",
        {f"millrace_state_filesystem_free_bytes{{{APP}}}": "50e9x120"},
        {40: ["MillraceStoreNearDiskLimit"]},
    ),
    Case(
        "the disk fills up within the day",
        {f"millrace_state_filesystem_free_bytes{{{APP}}}": "290e9-1e9x120"},
        {60: ["MillraceStoreNearDiskLimit"]},
    ),
    Case(
        "the disk fills up slowly and has space",
        {f"millrace_state_filesystem_free_bytes{{{APP}}}": "900e9-1e9x120"},
        {60: []},
    ),
    Case(
        "a large changelog is mostly superfluous for more than an hour",
        {f'millrace_changelog_dirty_ratio{{{APP},topic="c"}}': "0.9x120"},
        {40: [], 90: ["MillraceCompactionNotEffective"]},
    ),
    Case(
        "a small changelog is mostly superfluous",
        {
            f'millrace_changelog_dirty_ratio{{{APP},topic="c"}}': "0.9x120",
            f'millrace_changelog_size_bytes{{{APP},topic="c"}}': "1e6x120",
        },
        {90: []},
    ),
    Case(
        "an operation failed and was left there",
        {f'millrace_operations{{{APP},operation="reset",result="failed"}}': "0x20 1x100"},
        {25: [], 40: ["MillraceOperationFailed"]},
    ),
    Case(
        "the export stopped; that nobody looked since is not known",
        {
            f"millrace_export_timestamp_seconds{{{APP}}}": "0+60x20 1200x100",
            f"millrace_supervision_last_look_timestamp_seconds{{{APP}}}": "0+60x20 1200x100",
        },
        {35: [], 50: ["MillraceMetricsExportStale"]},
    ),
    Case(
        "the application was never exported",
        dict.fromkeys(EXPORTED, ""),
        {30: ["MillraceMetricsExportStale"]},
    ),
    Case(
        "a part of the export fails",
        {f'millrace_export_part_ok{{{APP},part="lag"}}': "0x120"},
        {10: [], 40: ["MillraceMetricsExportIncomplete"]},
    ),
)
