"""How long a recovery takes, now and next time."""

from __future__ import annotations

from scripts.dashboards.model import APP, Dashboard, Kind, Panel, Query, Unit

RECOVERY = Dashboard(
    uid="recovery",
    title="Recovery",
    text="Restorations that run, what the next one would take, and what drills measured.",
    panels=(
        Panel(
            title="Changelog records to restore",
            text="By task; 0 where nothing is being restored.",
            queries=(Query(f"millrace_stream_task_restore_remaining_records{{{APP}}}", "{{application_id}} {{task}}"),),
            alert="MillraceRestoreTooSlow",
        ),
        Panel(
            title="Records restored per second",
            text="In the latest restoration of each task.",
            queries=(
                Query(f"millrace_stream_task_restore_records_per_second{{{APP}}} > 0", "{{application_id}} {{task}}"),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Estimated recovery",
            text="If all stores had to be restored on the exporting host now: from changelogs alone, and with the "
            "standby's copies. The objective is that of the specification.",
            queries=(
                Query(f"millrace_recovery_estimated_seconds{{{APP}}}", "{{application_id}} from {{restore_from}}"),
                Query(f"millrace_recovery_objective_seconds{{{APP}}}", "{{application_id}} objective"),
            ),
            unit=Unit.SECONDS,
            alert="MillraceRecoveryObjectiveAtRisk",
        ),
        Panel(
            title="Records that it would restore",
            text="After compaction fewer are left, so it is at most that.",
            queries=(
                Query(f"millrace_recovery_estimated_records{{{APP}}}", "{{application_id}} from {{restore_from}}"),
            ),
        ),
        Panel(
            title="Recovery time of the latest drill",
            text="By what was killed.",
            queries=(Query(f"millrace_recovery_drill_duration_seconds{{{APP}}}", "{{application_id}} {{kind}}"),),
            unit=Unit.SECONDS,
            alert="MillraceRecoveryObjectiveAtRisk",
        ),
        Panel(
            title="Drills",
            text="By what was killed, and whether the application recovered.",
            queries=(Query(f"sum by (application_id, kind, result) (millrace_recovery_drills{{{APP}}})"),),
            kind=Kind.TABLE,
        ),
        Panel(
            title="Lag of standby copies",
            text="Changelog records that a takeover would have to restore.",
            queries=(
                Query(f"millrace_recovery_standby_lag_records{{{APP}}}", "{{application_id}} {{task}}"),
                Query(f"millrace_recovery_standby_acceptable_lag_records{{{APP}}}", "{{application_id}} acceptable"),
            ),
            alert="MillraceStandbyBehind",
        ),
        Panel(
            title="Age of the newest savepoint",
            text="And the interval that the specification wants.",
            queries=(
                Query(f"time() - millrace_savepoint_last_timestamp_seconds{{{APP}}}", "{{application_id}}"),
                Query(f"millrace_savepoint_interval_seconds{{{APP}}}", "{{application_id}} interval"),
            ),
            unit=Unit.SECONDS,
            alert="MillraceSavepointTooOld",
        ),
        Panel(
            title="Size of the newest savepoint",
            text="Files that it shares with others included.",
            queries=(Query(f"millrace_savepoint_last_size_bytes{{{APP}}}", "{{application_id}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Stores emptied and restored since the driver started",
            text="Because their files were damaged or gone.",
            queries=(
                Query(
                    f"sum by (application_id) (millrace_stream_task_state_rebuilds_total{{{APP}}})",
                    "{{application_id}}",
                ),
            ),
        ),
    ),
)
