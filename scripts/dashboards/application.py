"""One application: what it does now, and what keeps it from doing more."""

from __future__ import annotations

from scripts.dashboards.model import APP, SUB, Dashboard, Kind, Panel, Query, Unit, p99

_SUBTOPOLOGY = "{{application_id}} {{subtopology}}"

APPLICATION = Dashboard(
    uid="application",
    title="Application",
    text="What an application does now, how far it is behind, and where its time goes.",
    by_subtopology=True,
    panels=(
        Panel(
            title="State",
            text="State of each driver, as Kafka Streams calls it.",
            queries=(Query(f"sum by (application_id, state) (millrace_stream_application_state{{{APP}}} == 1)"),),
            kind=Kind.TABLE,
            width=8,
            alert="MillraceApplicationDown",
        ),
        Panel(
            title="Records per second",
            text="Input records processed, dropped ones included.",
            queries=(Query(f"millrace:processed:rate5m{{{SUB}}}", _SUBTOPOLOGY),),
            unit=Unit.PER_SECOND,
            width=8,
        ),
        Panel(
            title="Records written per second",
            text="By topic, in transactions that were committed.",
            queries=(
                Query(
                    f"sum by (application_id, topic) (rate(millrace_stream_topic_records_produced_total{{{SUB}}}[5m]))",
                    "{{topic}}",
                ),
            ),
            unit=Unit.PER_SECOND,
            width=8,
        ),
        Panel(
            title="Lag of the ten partitions furthest behind",
            text="Records between the committed offset and the last stable one, as the driver sees it.",
            queries=(Query(f"topk(10, millrace_consumer_records_lag{{{SUB}}})", "{{topic}} {{partition}}"),),
            alert="MillraceNoProgress",
        ),
        Panel(
            title="Time since the last commit",
            text="Of each sub-topology; an input in which nothing comes is committed no further.",
            queries=(Query(f"time() - millrace_stream_last_commit_timestamp_seconds{{{SUB}}}", _SUBTOPOLOGY),),
            unit=Unit.SECONDS,
            alert="MillraceNotProgressing",
        ),
        Panel(
            title="Time since a broker answered",
            text="The driver asks at every heartbeat: with the default, every three seconds.",
            queries=(
                Query(f"time() - millrace_stream_broker_last_answer_timestamp_seconds{{{APP}}}", "{{application_id}}"),
            ),
            unit=Unit.SECONDS,
            alert="MillraceBrokerUnreachable",
        ),
        Panel(
            title="Held back by open transactions of the input",
            text="How long each partition has not been readable beyond where the application is.",
            queries=(Query(f"topk(10, millrace_consumer_held_back_seconds{{{SUB}}} > 0)", "{{topic}} {{partition}}"),),
            unit=Unit.SECONDS,
            alert="MillraceReaderHeldBack",
        ),
        Panel(
            title="Offsets behind open transactions of the input",
            text="End of the log minus the last stable offset: what is written and cannot be read yet.",
            queries=(
                Query(
                    f"topk(10, millrace_consumer_high_watermark{{{SUB}}} "
                    f"- millrace_consumer_last_stable_offset{{{SUB}}})",
                    "{{topic}} {{partition}}",
                ),
            ),
        ),
        Panel(
            title="Verdict",
            text="How each application was at the last export, and why, in the words of `millrace status`.",
            queries=(Query(f"sum by (application_id, verdict, reason) (millrace_application_verdict{{{APP}}} == 1)"),),
            kind=Kind.TABLE,
            alert="MillraceFenced",
        ),
        Panel(
            title="Latency from record to commit",
            text="Half and 99 % of the records were committed within this time of their timestamp.",
            queries=(
                Query(f"millrace:e2e_latency_seconds:p99_5m{{{SUB}}}", f"p99 {_SUBTOPOLOGY}"),
                Query(
                    "histogram_quantile(0.5, sum by (application_id, subtopology, le) "
                    f"(rate(millrace_stream_task_record_e2e_latency_seconds_bucket{{{SUB}}}[5m])))",
                    f"p50 {_SUBTOPOLOGY}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Where the tasks' time goes",
            text="Seconds per second of all tasks by phase of a batch; as many as there are tasks at most.",
            queries=(
                Query(
                    "sum by (application_id, subtopology, phase) "
                    f"(rate(millrace_stream_task_phase_seconds_total{{{SUB}}}[5m]))",
                    f"{_SUBTOPOLOGY} {{{{phase}}}}",
                ),
            ),
            unit=Unit.SECONDS,
            kind=Kind.STACKED,
        ),
        Panel(
            title="Duration of a batch, p99",
            text="As the driver sees it, Spark's own part included; and the time of the operators alone.",
            queries=(
                Query(p99("millrace_stream_query_batch_duration_seconds", SUB), f"batch {_SUBTOPOLOGY}"),
                Query(p99("millrace_stream_task_process_latency_seconds", SUB), f"operators {_SUBTOPOLOGY}"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Where the stream threads' time goes",
            text="Share of each thread's time, where stream threads are the engine. Without idle it has no room left.",
            queries=(
                Query(
                    "sum by (application_id, thread, activity) "
                    f"(rate(millrace_stream_thread_seconds_total{{{APP}}}[5m]))",
                    "{{application_id}} {{thread}} {{activity}}",
                ),
            ),
            unit=Unit.SHARE,
            kind=Kind.STACKED,
        ),
        Panel(
            title="Commits of the stream threads",
            text="Commits per second of each thread, all its tasks together.",
            queries=(
                Query(
                    f"sum by (application_id, thread) (rate(millrace_stream_thread_commits_total{{{APP}}}[5m]))",
                    "{{application_id}} {{thread}}",
                ),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Duration of a stream thread's commit, mean",
            text="From the begin to the end of a commit, the store's write included.",
            queries=(
                Query(
                    "sum by (application_id, thread) "
                    f"(rate(millrace_stream_thread_commit_latency_seconds_total{{{APP}}}[5m])) "
                    "/ sum by (application_id, thread) "
                    f"(rate(millrace_stream_thread_commits_total{{{APP}}}[5m]))",
                    "{{application_id}} {{thread}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Records dropped in 15 minutes",
            text="By reason; only late ones are normal, and few of them.",
            queries=(
                Query(
                    f"sum by (application_id, reason) (millrace:dropped:increase15m{{{SUB}}}) > 0",
                    "{{application_id}} {{reason}}",
                ),
            ),
            alert="MillraceLateRecords",
        ),
        Panel(
            title="Dead-letter records in 15 minutes",
            text="Records that went to the dead-letter topic.",
            queries=(Query(f"millrace:dead_letters:increase15m{{{SUB}}}", _SUBTOPOLOGY),),
            alert="MillraceDeadLetters",
        ),
        Panel(
            title="Lateness, p99",
            text="Stream time minus timestamp: a window's grace must be longer for its records not to be dropped.",
            queries=(Query(p99("millrace_stream_task_record_lateness_seconds", SUB), _SUBTOPOLOGY),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Failed attempts and restarts of queries",
            text="Attempts at a batch that failed before one succeeded, and queries started again, in 15 minutes.",
            queries=(
                Query(
                    f"sum by (application_id) (increase(millrace_stream_task_failed_attempts_total{{{SUB}}}[15m]))",
                    "{{application_id}} attempts",
                ),
                Query(
                    f"sum by (application_id) (increase(millrace_stream_query_restarts_total{{{SUB}}}[15m]))",
                    "{{application_id}} restarts",
                ),
            ),
        ),
    ),
)
