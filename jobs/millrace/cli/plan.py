"""The command ``millrace plan``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.table import Table

from millrace.cli.console import out
from millrace.cli.environment import fill_in_environment, named_spec

if TYPE_CHECKING:
    from millrace.insight.plan import Plan

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    example = "millrace plan fraud-detection --records-per-second 5000 --record-bytes 120 --keys 100000"
    app.command(epilog=f"Example: [bold]{example}[/]")(plan)


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    *,
    records_per_second: Annotated[float, typer.Option(help="Expected records of all input topics together.")],
    record_bytes: Annotated[int, typer.Option(help="Bytes of a record's value.")],
    keys: Annotated[int, typer.Option(help="Different keys of a store; of a window store, within one window.")],
    key_bytes: Annotated[int, typer.Option(help="Bytes of a record's key.")] = 16,
    state_value_bytes: Annotated[
        int | None, typer.Option(help="Bytes of a value in a store. Default: those of a record.")
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=N", help="Partitions of a topic that SPEC does not declare; repeatable."),
    ] = None,
    compression_ratio: Annotated[float, typer.Option(help="What LZ4 leaves of a store's data; JSON 0.2 to 0.5.")] = 1.0,
    utilization: Annotated[float, typer.Option(help="Share of the capacity that the load takes, below 1.")] = 0.5,
    standby_lag: Annotated[float, typer.Option(help="Seconds that a standby copy is behind.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: bytes and seconds.")] = False,
) -> None:
    """Print what an application will need under a load: topics, disk, transactions, recovery; needs no broker.

    The estimates are upper ones: every record counts as passing every operator.
    """
    from millrace.insight.plan import plan as make_plan
    from millrace.insight.plan_traffic import ExpectedLoad
    from millrace.install.which_spec import Use

    fill_in_environment()
    load = ExpectedLoad(
        records_per_second=records_per_second,
        record_bytes=record_bytes,
        keys=keys,
        key_bytes=key_bytes,
        state_value_bytes=state_value_bytes,
        compression_ratio=compression_ratio,
        utilization=utilization,
        standby_lag_s=standby_lag,
    )
    made = make_plan(
        named_spec(spec, Use.DEPLOYMENT).spec, load, partitions=dict(_topic(text) for text in partitions or [])
    )
    if as_json:
        out.print(orjson.dumps(made.document(), option=orjson.OPT_INDENT_2).decode(), markup=False)
        return
    for table in (_topics(made), _stores(made), _transactions(made), _recovery(made)):
        out.print(table, soft_wrap=False)
        out.print()


def _topic(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdigit() or int(number) < 1:
        raise typer.BadParameter(f"{text!r} is not TOPIC=N with N of 1 or more", param_hint="--partitions")
    return name, int(number)


def _topics(made: Plan) -> Table:
    table = _table(
        "internal topic", "cleanup policy", "retention", right=("partitions", "live", "at most, one replica")
    )
    for topic in made.topics:
        table.add_row(
            topic.name,
            topic.cleanup_policy,
            "unlimited" if topic.retention_ms is None else str(timedelta(milliseconds=topic.retention_ms)),
            str(topic.partitions),
            _bytes(topic.size.live_bytes),
            _bytes(topic.size.largest_bytes),
        )
    table.add_row("all", "", "", "", "", _bytes(made.topic_disk_bytes), style="bold")
    return table


def _stores(made: Plan) -> Table:
    table = _table("store", "kind", "where", "restored from", right=("entries", "updates/s", "size"))
    for store in made.stores:
        table.add_row(
            store.name,
            store.kind,
            store.backend.value,
            store.changelog or "nothing: lost with the host",
            f"{store.size.entries:,}",
            f"{store.updates_per_second:,.0f}",
            _bytes(store.size.disk_bytes) if store.copies == 1 else f"{store.copies} x {_bytes(store.size.disk_bytes)}",
        )
    table.add_row("all on disk", "", "", "", "", "", _bytes(made.store_disk_bytes), style="bold")
    return table


def _transactions(made: Plan) -> Table:
    table = _table("exactly once", right=("",))
    if made.eos is None:
        table.add_row("off: processing.guarantee is at_least_once", "")
        return table
    eos = made.eos
    table.add_row("tasks", str(sum(made.tasks.values())))
    table.add_row("time between two commits of a task", _seconds(made.commit_interval_s))
    table.add_row("transactions/s", f"{eos.transactions_per_second:,.1f}")
    table.add_row("markers/s", f"{eos.markers_per_second:,.1f}")
    table.add_row("markers' part of the bytes written", f"{eos.log_share:.2%}")
    table.add_row("committing, part of a task's time", f"{eos.time_share:.1%}")
    table.add_row("latency for readers of committed records, mean", _seconds(eos.mean_latency_s))
    table.add_row("the same, at most", _seconds(eos.largest_latency_s))
    return table


def _recovery(made: Plan) -> Table:
    table = _table("recovery after the loss of a host", right=("changelog to read", "restore", "catch up", "in all"))
    for name, time in (("without standby", made.recovery), ("with standby", made.recovery_with_standby)):
        table.add_row(
            name,
            _bytes(time.restore_bytes),
            *(_seconds(value) for value in (time.restore_s, time.catch_up_s, time.total_s)),
        )
    return table


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in left:
        table.add_column(header, no_wrap=True)
    options: dict[str, Any] = {"justify": "right", "no_wrap": True}
    for header in right:
        table.add_column(header, **options)
    return table


def _bytes(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.{0 if unit == 0 else 1}f} {_UNITS[unit]}"


def _seconds(time: float) -> str:
    return f"{time:,.1f} s" if time < 120 else str(timedelta(seconds=round(time)))
