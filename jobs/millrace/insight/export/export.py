"""``export_metrics``: all parts of all applications, then the targets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from millrace.errors import MillraceError
from millrace.insight.export import from_broker, from_driver, from_files
from millrace.insight.export.exported import Clusters, ExportedApplication
from millrace.insight.export.series import Sample
from millrace.insight.export.targets import MetricsTarget
from millrace.install.home import Home
from millrace.launch.scrape_target import remove_scrape_targets_of_others
from millrace.metrics import exported as m
from millrace.metrics.exported import ExportPart

log = structlog.get_logger(__name__)

_PARTS: dict[ExportPart, Callable[[ExportedApplication], Iterable[Sample]]] = {
    ExportPart.SUPERVISION: from_files.supervision,
    ExportPart.OPERATIONS: from_files.operations,
    ExportPart.DRILLS: from_files.drills,
    ExportPart.SAVEPOINTS: from_files.savepoints,
    ExportPart.STATE: from_files.state,
    ExportPart.STANDBY: from_files.standby,
    ExportPart.CHANGELOGS: from_broker.changelogs,
    ExportPart.TRANSACTIONS: from_broker.transactions,
    ExportPart.LAG: from_broker.lag,
    ExportPart.RECOVERY: from_broker.recovery,
    ExportPart.EOS: from_driver.eos,
}


@dataclass(frozen=True, kw_only=True)
class ApplicationExport:
    """The export of one application.

    Args:
        application: its name.
        samples: its series.
        problems: why parts could not be had, by part.
    """

    application: str
    samples: tuple[Sample, ...]
    problems: dict[ExportPart, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was exported.

    Args:
        applications: all that are deployed.
        removed: those whose series a target removed, as they are gone.
        took_s: time that it took, seconds.
    """

    applications: tuple[ApplicationExport, ...]
    removed: tuple[str, ...] = ()
    took_s: float = 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """Why parts could not be had, a line each."""
        return tuple(
            f"{each.application}: {part}: {problem}"
            for each in self.applications
            for part, problem in each.problems.items()
        )

    def summary(self) -> dict[str, object]:
        """A small document for JSON."""
        return {
            "series": {each.application: len(each.samples) for each in self.applications},
            "removed": list(self.removed),
            "problems": list(self.problems),
            "took_s": round(self.took_s, 3),
        }


def export_metrics(
    home: Home,
    targets: Sequence[MetricsTarget] = (),
    *,
    parts: Collection[ExportPart] = tuple(ExportPart),
    clock: Callable[[], float] = time.time,
    progress: Callable[[str], None] = lambda _: None,
) -> ExportReport:
    """Work the metrics of :data:`~millrace.metrics.exported.EXPORTED_METRICS` out, and write them to the targets.

    All applications that were deployed here are exported, whether they run or not. A part that fails (no broker
    answers, say) is told in ``millrace_export_part_ok`` and in the report; the others are exported all the same.

    Args:
        home: the installation.
        targets: where it goes; none only works it out.
        parts: which parts are worked out; the series of others are left out, and removed where they were.
        clock: seconds since the epoch.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: a target could not be written.
    """
    began = time.monotonic()
    clusters = Clusters()
    applications = []
    for name in home.deployed():
        progress(f"looking at {name}")
        applications.append(_export(ExportedApplication(home, name, clusters), parts, clock))
    groups = {each.application: each.samples for each in applications}
    removed: list[str] = []
    for target in targets:
        removed += target.write(groups)
    remove_scrape_targets_of_others(home)
    return ExportReport(applications=tuple(applications), removed=tuple(removed), took_s=time.monotonic() - began)


def _export(
    exported: ExportedApplication, parts: Collection[ExportPart], clock: Callable[[], float]
) -> ApplicationExport:
    samples = [Sample(m.EXPORT_TIMESTAMP, clock())]
    problems: dict[ExportPart, str] = {}
    for part in (each for each in _PARTS if each in parts):
        began = time.monotonic()
        try:
            # A part that fails midway is left out as a whole.
            samples += list(_PARTS[part](exported))
        except MillraceError as error:
            log.warning("part left out", application=exported.application, part=part.value, problem=error.message)
            problems[part] = error.message
        samples.append(Sample(m.EXPORT_PART_OK, float(part not in problems), (part,)))
        samples.append(Sample(m.EXPORT_DURATION, time.monotonic() - began, (part,)))
    return ApplicationExport(application=exported.application, samples=tuple(samples), problems=problems)
