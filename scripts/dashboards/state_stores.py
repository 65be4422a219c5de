"""Stores and their changelogs."""

from __future__ import annotations

from scripts.dashboards.model import APP, SUB, Dashboard, Panel, Query, Unit

_STORE = "{{application_id}} {{store}}"

STATE_STORES = Dashboard(
    uid="state-stores",
    title="State stores",
    text="What stores hold, how they grow, and whether their changelogs stay small.",
    by_subtopology=True,
    panels=(
        Panel(
            title="Entries",
            text="Estimated, over all tasks.",
            queries=(
                Query(f"sum by (application_id, store) (millrace_stream_state_estimate_num_keys{{{SUB}}})", _STORE),
            ),
        ),
        Panel(
            title="Size of stores",
            text="On disk, over all tasks; of in-memory stores in memory.",
            queries=(Query(f"sum by (application_id, store) (millrace_stream_state_size_bytes{{{SUB}}})", _STORE),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Free space of the state directory",
            text="Share of its file system, on the exporting host.",
            queries=(
                Query(
                    f"millrace_state_filesystem_free_bytes{{{APP}}} / millrace_state_filesystem_size_bytes{{{APP}}}",
                    "{{application_id}}",
                ),
            ),
            unit=Unit.SHARE,
            alert="MillraceStoreNearDiskLimit",
            red_below=0.1,
        ),
        Panel(
            title="Size of changelogs",
            text="All partitions of one replica.",
            queries=(Query(f"millrace_changelog_size_bytes{{{APP}}}", "{{topic}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Superfluous records of changelogs",
            text="Share that a later record of the same key replaces, at least; and from when on the broker cleans.",
            queries=(
                Query(f"millrace_changelog_dirty_ratio{{{APP}}}", "{{topic}}"),
                Query(f"max by (application_id) (millrace_changelog_dirty_threshold{{{APP}}})", "threshold"),
            ),
            unit=Unit.SHARE,
            alert="MillraceCompactionNotEffective",
        ),
        Panel(
            title="Stream time behind the clock",
            text="Of the task that is furthest behind: windows close by it, and an idle input does not move it.",
            queries=(
                Query(
                    "max by (application_id, store) "
                    f"(time() - millrace_stream_task_stream_time_timestamp_seconds{{{SUB}}})",
                    _STORE,
                ),
            ),
            unit=Unit.SECONDS,
        ),
    ),
)
