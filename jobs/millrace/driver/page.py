"""The control plane's HTML page."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from string import Template

from millrace.driver.health import Health
from millrace.driver.status import ApplicationStatus

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5"><title>$application: $state</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884 }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.alive { color: #2a9d4a } .unwell { color: #d33 } .note { color: #888 }
</style></head><body>
<h1>$application</h1>
<p><strong class="$colour">$state$paused</strong>: $text</p>
<p class="note">driver $epoch, process $pid on $host; guarantee $guarantee; updated $updated</p>
<h2>Queries</h2>
<table><tr><th>sub-topology</th><th class="number">batches</th><th class="number">records</th>
<th class="number">lag</th><th>last batch</th></tr>$queries</table>
<h2>Tasks</h2>
<table><tr><th>task</th><th>state</th><th>worker</th><th class="number">to restore</th></tr>$tasks</table>
$threads<h2>Input</h2>
<table><tr><th>topic</th><th class="number">partition</th><th class="number">offset</th><th class="number">lag</th></tr>
$inputs</table>
<p><a href="/topology">topology</a> · <a href="/metrics">metrics</a> · <a href="/status">status</a> ·
<a href="/tasks">tasks</a> · <a href="/health/ready">health</a></p>
</body></html>
""")


_THREADS = Template("""<h2>Stream threads</h2>
<p class="note">$shortage</p>
<table><tr><th>thread</th><th>worker</th><th>tasks</th><th class="number">poll</th><th class="number">process</th>
<th class="number">commit</th><th class="number">idle</th><th class="number">commits/s</th>
<th class="number">ms a commit</th></tr>$rows</table>
""")


def page(status: ApplicationStatus, health: Health) -> str:
    """Returns the HTML page with state, queries, tasks and lag of an application, every text escaped."""
    queries = [
        _row(
            number,
            each.batches,
            each.records,
            _or_dash(each.lag),
            _time(each.last_batch_finished_at),
            numbers={1, 2, 3},
        )
        for number, each in sorted(status.progress.items())
    ]
    tasks = [
        _row(task, state, status.task_hosts.get(task, "-"), each.restore_remaining.get(task, 0), numbers={3})
        for _, each in sorted(status.progress.items())
        for task, state in sorted(each.task_states.items())
    ]
    threads = [
        _row(
            each.slot,
            each.worker,
            ", ".join(f"{task} (leaves)" if task in each.leaving else task for task in each.tasks) or "-",
            *(f"{share:.0%}" for share in (each.poll, each.process, each.commit, each.idle)),
            f"{each.commits_per_s:.1f}",
            "-" if each.commit_latency_s is None else f"{each.commit_latency_s * 1000:.0f}",
            numbers={3, 4, 5, 6, 7, 8},
        )
        for each in status.stream_threads
    ]
    inputs = [
        _row(topic, partition, offset, _or_dash(status.lag.get(topic, {}).get(partition)), numbers={1, 2, 3})
        for topic, offsets in sorted(status.offsets.items())
        for partition, offset in sorted(offsets.items())
    ]
    return _PAGE.substitute(
        application=escape(status.application_id),
        state=escape(status.state),
        paused=" (paused)" if status.paused else "",
        colour="alive" if health.alive else "unwell",
        text=escape(f"{health.text} {status.remedy}".strip()),
        epoch=status.driver_epoch,
        pid=status.driver.pid,
        host=escape(status.driver.host),
        guarantee=escape(status.processing_guarantee or "-"),
        updated=_time(status.updated_at),
        queries="".join(queries),
        tasks="".join(tasks),
        threads=_THREADS.substitute(shortage=escape(status.shortage), rows="".join(threads)) if threads else "",
        inputs="".join(inputs),
    )


def _row(*cells: object, numbers: set[int]) -> str:
    columns = (
        f'<td class="number">{escape(str(cell))}</td>' if index in numbers else f"<td>{escape(str(cell))}</td>"
        for index, cell in enumerate(cells)
    )
    return f"<tr>{''.join(columns)}</tr>"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
