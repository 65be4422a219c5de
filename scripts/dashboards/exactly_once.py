"""Transactions: what exactly once costs, and what stands in its way."""

from __future__ import annotations

from scripts.dashboards.model import APP, SUB, Dashboard, Panel, Query, Unit, p99

_SUBTOPOLOGY = "{{application_id}} {{subtopology}}"

EXACTLY_ONCE = Dashboard(
    uid="exactly-once",
    title="Exactly once",
    text="Transactions as tasks and broker see them, what they cost, and whether readers wait behind one.",
    by_subtopology=True,
    panels=(
        Panel(
            title="Transactions in 15 minutes",
            text="By their end. Aborted ones cost time and change nothing; fenced ones are those of an older attempt.",
            queries=(Query(f"millrace:transactions:increase15m{{{APP}}}", "{{application_id}} {{outcome}}"),),
            alert="MillraceFencingStorm",
        ),
        Panel(
            title="Share of aborted transactions",
            text="Of all that ended within 15 minutes.",
            queries=(Query(f"millrace:aborted:ratio15m{{{APP}}}", "{{application_id}}"),),
            unit=Unit.SHARE,
            alert="MillraceAbortedTransactions",
        ),
        Panel(
            title="Price of exactly once",
            text="Share of the tasks' time in which transactions end: over five minutes, and since the driver started.",
            queries=(
                Query(f"millrace:eos_overhead:ratio5m{{{SUB}}}", f"now {_SUBTOPOLOGY}"),
                Query(f"millrace_eos_overhead_ratio{{{SUB}}}", f"since the start {_SUBTOPOLOGY}"),
            ),
            unit=Unit.SHARE,
        ),
        Panel(
            title="Duration of a commit, p99",
            text="From the last output of a batch to the end of its transaction.",
            queries=(Query(p99("millrace_stream_task_commit_latency_seconds", SUB), _SUBTOPOLOGY),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Transactional ids by state",
            text="What the broker knows of their latest transaction, as of the last export.",
            queries=(Query(f"millrace_broker_transactions{{{APP}}} > 0", "{{application_id}} {{state}}"),),
        ),
        Panel(
            title="Oldest open transaction",
            text="Readers of committed records wait in front of it. The broker aborts it at the timeout.",
            queries=(
                Query(f"millrace_broker_transaction_oldest_open_seconds{{{APP}}}", "{{application_id}}"),
                Query(f"millrace_broker_transaction_timeout_seconds{{{APP}}}", "{{application_id}} timeout"),
            ),
            unit=Unit.SECONDS,
            alert="MillraceHungTransaction",
        ),
        Panel(
            title="Records behind",
            text="Up to the last stable offset, markers and aborted records not counted, as of the last export.",
            queries=(
                Query(
                    f"sum by (application_id, topic) (millrace_consumer_group_lag_records{{{APP}}})",
                    "{{application_id}} {{topic}}",
                ),
            ),
        ),
        Panel(
            title="Epoch of the driver",
            text="Each driver that takes over has a higher one; many steps within minutes are two of them at odds.",
            queries=(Query(f"max by (application_id) (millrace_stream_driver_epoch{{{APP}}})", "{{application_id}}"),),
            alert="MillraceFencingStorm",
        ),
    ),
)
