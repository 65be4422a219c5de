"""``compact``: the operation and its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.config import StreamsConfig
from millrace.driver.task_databases import PURGE, purge
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.connection import admin_of
from millrace.install.launchers.instance import DriverInstance
from millrace.install.record import read_record
from millrace.kafka.log_dirs import log_bytes
from millrace.launch.control_client import request_operation
from millrace.operations import OperationPlan, Step, StepContext, operation, perform
from millrace.operations.compaction.cleaning import roll_segments, wait_for_cleaner
from millrace.operations.compaction.plan import CompactionOptions, plan_compaction
from millrace.operations.compaction.settings import COMPACT, TEMPORARY, differing, put_back
from millrace.operations.compaction.stores import compact_running, compact_stopped
from millrace.operations.outcome import Outcome

_PURGE_LIMIT_S = 60.0


def compact(
    application: Application,
    options: CompactionOptions | None = None,
    *,
    reason: str,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Make the logs and files of an application small now, beside it or while it is stopped.

    Changelogs with many superfluous records are cleaned: their settings are changed for as long as that takes, and
    always put back: by the steps, by ``millrace operations resume`` after a kill, and by the next compaction after an
    abandoned one. Repartition topics are purged up to the committed offsets, between batches. The files of stores are
    rewritten in the background, without what was deleted or has expired.

    Args:
        application: which.
        options: what is compacted.
        reason: for the journal.
        dry_run: only look and say what would be done.
        progress: takes lines that say how far it is.

    Returns:
        What was done; ``results`` of the step ``check`` has the bytes before and after of each topic.

    Raises:
        OperationError: another operation has not ended, or the driver does not answer.
        MillraceError: the broker or a store did not do its part; the operation can be resumed.
    """
    plan = plan_compaction(application, options or CompactionOptions(), reason=reason)
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


@operation(COMPACT)
def _steps(plan: OperationPlan) -> Sequence[Step]:
    decided = plan.decisions
    logs: Mapping[str, Any] = decided["logs"]
    steps = []
    if decided["left_behind"]:
        named = ", ".join(decided["left_behind"])
        steps.append(
            Step(name="earlier-settings", text=f"Put back what an earlier compaction left: {named}.", run=_earlier)
        )
    if logs:
        named = ", ".join(
            f"{topic} ({sum(log['bytes'].values()):,} bytes, {log['superfluous']:.0%} superfluous)"
            for topic, log in logs.items()
        )
        temporary = ", ".join(f"{name}={value}" for name, value in TEMPORARY.items())
        steps += [
            Step(name="lower-settings", text=f"Set {temporary} for {named}.", run=_lower),
            Step(name="roll-segments", text="Begin a new segment of each partition.", run=_roll),
            Step(
                name="wait-for-cleaner",
                text=f"Wait {decided['budget_s'] / 2:g} s at most for the cleaner.",
                run=_wait,
            ),
            Step(name="settings-back", text=f"Put the settings of {', '.join(logs)} back.", run=_back),
        ]
    if decided["repartition_topics"]:
        named = ", ".join(decided["repartition_topics"])
        steps.append(Step(name="purge", text=f"Delete what is committed from {named}.", run=_purge))
    if decided["stores"]:
        text = f"Rewrite the files of the stores, {decided['budget_s'] / 2:g} s at most."
        steps.append(Step(name="stores", text=text, run=_compact_stores))
    steps.append(Step(name="check", text="See that the settings are what they were, and compare sizes.", run=_check))
    return steps


def _earlier(context: StepContext) -> None:
    config = _config(context)
    put_back(admin_of(config), context.plan.decisions["left_behind"])


def _lower(context: StepContext) -> None:
    config = _config(context)
    admin = admin_of(config)
    for topic in context.plan.decisions["logs"]:
        admin.change_topic_settings(topic, TEMPORARY)


def _roll(context: StepContext) -> None:
    config = _config(context)
    logs = context.plan.decisions["logs"]
    roll_segments(config, logs)
    # Otherwise a running application would begin a segment every second until the cleaner is done.
    admin = admin_of(config)
    for topic in logs:
        admin.change_topic_settings(topic, {"segment.ms": context.plan.decisions["settings"][topic]["segment.ms"]})


def _wait(context: StepContext) -> Mapping[str, Any]:
    config = _config(context)
    decided = context.plan.decisions
    return wait_for_cleaner(config, decided["logs"], budget_s=decided["budget_s"] / 2, progress=context.progress)


def _back(context: StepContext) -> None:
    config = _config(context)
    put_back(admin_of(config), context.plan.decisions["settings"])


def _purge(context: StepContext) -> Mapping[str, Any]:
    config = _config(context)
    topics = context.plan.decisions["repartition_topics"]
    driver = _driver(context)
    if driver is None:
        return {"begins": purge(admin_of(config), config.application_id, topics)}
    answer = request_operation(context.directory, driver, PURGE, {"topics": topics}, timeout_s=_PURGE_LIMIT_S)
    return {"begins": answer["purged"]}


def _compact_stores(context: StepContext) -> Mapping[str, Any]:
    config = _config(context)
    budget_s = context.plan.decisions["budget_s"] / 2
    driver = _driver(context)
    if driver is None:
        return {"tasks": compact_stopped(config, budget_s=budget_s, progress=context.progress)}
    tasks = compact_running(context.directory, driver, budget_s=budget_s, progress=context.progress)
    return {"tasks": tasks}


def _check(context: StepContext) -> Mapping[str, Any]:
    config = _config(context)
    decided = context.plan.decisions
    admin = admin_of(config)
    if wrong := differing(admin, {**decided["left_behind"], **decided["settings"]}):
        raise OperationError(
            f"The settings of {', '.join(wrong)} are not what they were before the compaction.",
            remedy=f"find out who changed them; `millrace operations show` has the earlier ones of {context.id}",
        )
    sizes = log_bytes(config.bootstrap_servers, list(decided["logs"]), settings=admin.settings)
    return {
        "topics": {
            topic: {
                "before": sum(log["bytes"].values()),
                "after": sum(size for (name, _), size in sizes.items() if name == topic),
            }
            for topic, log in decided["logs"].items()
        },
        "passed_over": decided["passed_over"],
    }


def _config(context: StepContext) -> StreamsConfig:
    return context.application.config


def _driver(context: StepContext) -> DriverInstance | None:
    """The driver, where one was deployed here and lives."""
    record = read_record(context.directory)
    return record.driver if record is not None and record.is_driver_alive(context.directory) else None
