"""What a deployment of the specification as it is now would do, and what would refuse it; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.spec import ApplicationSpec, RunState
from millrace.launch.changes import changes_since_launch
from millrace.launch.checks import Check, Report
from millrace.launch.preflight import preflight
from millrace.operations.action import Action
from millrace.operations.journal import holding_operation


@dataclass(frozen=True, kw_only=True)
class UpgradeReport:
    """What a deployment would meet.

    Args:
        application: its name.
        action: ``START``, ``UPGRADE`` or ``NOTHING``.
        differences: between what was launched and what a deployment would launch, a line each.
        changes: what becomes of stores and internal topics, a line each; empty where nothing ran before.
        missing_topics: declared topics that a deployment would create.
        report: every check.
    """

    application: str
    action: Action
    differences: tuple[str, ...]
    changes: tuple[str, ...]
    missing_topics: tuple[str, ...]
    report: Report

    @property
    def refused(self) -> tuple[Check, ...]:
        """The checks for which a deployment would be refused."""
        return self.report.failed

    def lines(self) -> tuple[str, ...]:
        """The report for people."""
        return (
            f"A deployment would do: {self.action}",
            *self.differences,
            *(f"State: {change}" for change in self.changes or ("nothing of it changes",)),
            *(f"Topic {topic} is missing and would be created" for topic in self.missing_topics),
            *self.report.lines(),
        )

    def summary(self) -> dict[str, Any]:
        """A small document of plain data."""
        return {
            "application": self.application,
            "action": self.action.value,
            "differences": [line[:300] for line in self.differences[:50]],
            "changes": [change[:300] for change in self.changes[:50]],
            "missing_topics": list(self.missing_topics[:50]),
            "refused": [check.name for check in self.refused],
            "checks": self.report.summary()[:50],
        }


def upgrade_report(application: Application) -> UpgradeReport:
    """Compare the specification with what ran last and with what the broker has.

    Args:
        application: which.

    Raises:
        ConfigurationError: the specification is missing or invalid.
    """
    file = application.desired.file
    spec, directory = file.spec, application.directory
    record = application.record
    action = Action.START
    differences = changes_since_launch(application, file)
    if record is not None and record.is_driver_alive(directory):
        is_same = record.spec_hash == file.hash and not differences.code
        action = Action.NOTHING if is_same else Action.UPGRADE
    checks = []
    if spec.state is RunState.SUSPENDED:
        remedy = f"set `state: running` in {application.spec_path}"
        checks.append(Check(name="state", ok=False, text="the specification says suspended", remedy=remedy))
    if (holding := holding_operation(directory)) is not None:
        remedy = f"resume it with `millrace operations resume {application}`, or abandon it"
        checks.append(Check(name="operations", ok=False, text=str(holding), remedy=remedy))
    found = preflight(spec).checks
    is_reachable = not any(check.name in {"broker", "broker access"} and not check.ok for check in found)
    return UpgradeReport(
        application=application.name,
        action=action,
        differences=differences.lines(),
        changes=_changes(spec) if is_reachable else ("not known without a broker",),
        missing_topics=_missing(spec) if is_reachable else (),
        report=Report(application=application.name, checks=(*checks, *found)),
    )


def _changes(spec: ApplicationSpec) -> tuple[str, ...]:
    from millrace.driver.status_topic import read_statuses
    from millrace.dsl.loading import load_topology
    from millrace.topology.diff import diff

    config = spec.streams_config()
    statuses = read_statuses(config.bootstrap_servers, client_settings=config.client_settings("admin."))
    status = statuses.get(config.application_id)
    if status is None or not status.topology_summary:
        return ("it has not run before",)
    try:
        found = diff(status.topology_summary, load_topology(spec.module, config))
    except MillraceError as error:
        return (error.message,)
    return tuple(str(found).splitlines())


def _missing(spec: ApplicationSpec) -> tuple[str, ...]:
    from millrace.operations.topics import missing_topics

    return missing_topics(spec)
