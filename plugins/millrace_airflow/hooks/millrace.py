"""The hook: where the installation is, and its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from millrace import launch, operations, supervise
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.which_spec import Use
from millrace.launch.changes import difference_note
from millrace.operations import Outcome
from millrace.operations.journal import OperationRecord, unfinished_operation
from millrace.supervise.ownership import owns, take_over_supervision

if TYPE_CHECKING:
    # Importing these takes seconds, and DAG files import the hook: its methods import what they need.
    from millrace.insight.export import ExportReport, MetricsTarget
    from millrace.insight.positions import TopicPosition
    from millrace.operations.audit import AuditReport
    from millrace.operations.compaction import CompactionOptions
    from millrace.operations.dead_letters import Selection
    from millrace.operations.reset import ResetOptions
    from millrace.operations.savepoints import Manifest
    from millrace.supervise.upgrade_report import UpgradeReport

Progress = Callable[[str], None]
LATEST = "latest"
"""Instead of a savepoint's name: the newest that is complete."""


class MillraceHook(BaseHook):  # type: ignore[misc]
    """Operations of one Millrace installation.

    Args:
        millrace_conn_id: a connection whose extra fields ``home`` and ``config_dir`` name the installation; none takes
            ``MILLRACE_HOME`` and ``MILLRACE_CONFIG_DIR`` of the Airflow process, so no connection is needed.
    """

    conn_name_attr = "millrace_conn_id"
    default_conn_name = "millrace_default"
    conn_type = "millrace"
    hook_name = "Millrace"

    def __init__(self, millrace_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.millrace_conn_id = millrace_conn_id
        self._home: Home | None = None

    @property
    def home(self) -> Home:
        """The installation."""
        if self._home is None:
            self._home = self._find_home()
        return self._home

    def _find_home(self) -> Home:
        if self.millrace_conn_id is None:
            return Home.from_environment()
        extra = self.get_connection(self.millrace_conn_id).extra_dejson
        default = Home.from_environment()
        return Home(
            root=Path(extra.get("home") or default.root).absolute(),
            specs=Path(extra.get("config_dir") or default.specs).absolute(),
        )

    def test_connection(self) -> tuple[bool, str]:
        """For the button of the connection's form: whether both directories are there."""
        missing = [str(path) for path in (self.home.root, self.home.specs) if not path.is_dir()]
        if missing:
            return False, f"no such directory: {', '.join(missing)}"
        specs = sorted(path.stem for path in self.home.specs.glob("*.yaml"))
        return True, f"applications: {', '.join(specs) or 'none'}"

    def _application(self, name: str) -> Application:
        return Application(self.home, name)

    def deploy(self, application: str, *, reason: str, dry_run: bool = False, **options: Any) -> Outcome:
        """See :func:`millrace.supervise.deploy`, which takes ``options``."""
        return supervise.deploy(self._application(application), reason=reason, dry_run=dry_run, **options)

    def difference_note(self, application: str, use: Use) -> str:
        """See :func:`millrace.launch.changes.difference_note`."""
        return difference_note(use, self._application(application))

    def recovery_drill(self, application: str, *, reason: str, dry_run: bool = False, **options: Any) -> Outcome:
        """See :func:`millrace.operations.recovery_drill`, which takes ``options``."""
        return operations.recovery_drill(self._application(application), reason=reason, dry_run=dry_run, **options)

    def wait_until_ready(self, application: str, *, timeout_s: float | None = None) -> launch.Observation:
        """See :func:`millrace.supervise.wait_until_ready`."""
        return supervise.wait_until_ready(self._application(application), timeout_s=timeout_s)

    def stop(self, application: str, *, reason: str, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.operations.stop`."""
        return operations.stop(self._application(application), reason=reason, dry_run=dry_run)

    def suspend(self, application: str, *, reason: str, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.operations.suspend.suspend`."""
        from millrace.operations.suspend import suspend

        return suspend(self._application(application), reason=reason, dry_run=dry_run)

    def reconcile(self, application: str, *, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.supervise.reconcile`."""
        return supervise.reconcile(self._application(application), dry_run=dry_run)

    def reconcile_all(self, *, dry_run: bool = False) -> list[Outcome]:
        """See :func:`millrace.supervise.reconcile_all`."""
        return supervise.reconcile_all(self.home, dry_run=dry_run)

    def take_over_supervision(self, application: str, *, owner: str) -> Outcome:
        """See :func:`millrace.supervise.ownership.take_over_supervision`."""
        return take_over_supervision(self._application(application), owner=owner)

    def owns(self, application: str, *, owner: str) -> bool:
        """See :func:`millrace.supervise.ownership.owns`."""
        return owns(self._application(application), owner=owner)

    def observe(self, application: str) -> launch.Observation:
        """See :func:`millrace.launch.observe`."""
        return launch.observe(self._application(application))

    def unfinished_operation(self, application: str) -> OperationRecord | None:
        """See :func:`millrace.operations.unfinished_operation`."""
        return unfinished_operation(self.home.application(application))

    def resume_or(self, application: str, begin: Callable[[], Outcome], *, reported: str = "") -> Outcome:
        """See :func:`millrace.operations.resume_or`."""
        from millrace.operations import resume_or

        return resume_or(self._application(application), begin, reported=reported)

    def resume(self, application: str, *, progress: Progress) -> Outcome:
        """See :func:`millrace.operations.resume`."""
        from millrace.operations import resume

        return resume(self._application(application), progress=progress)

    def abandon(self, application: str, *, reason: str) -> OperationRecord:
        """See :func:`millrace.operations.abandon`."""
        from millrace.operations import abandon

        return abandon(self._application(application), reason=reason)

    def reset(
        self, application: str, options: ResetOptions, *, reason: str, dry_run: bool, progress: Progress
    ) -> Outcome:
        """See :func:`millrace.operations.reset.reset`."""
        from millrace.operations.reset import reset

        return reset(self._application(application), options=options, reason=reason, dry_run=dry_run, progress=progress)

    def compact(
        self, application: str, options: CompactionOptions, *, reason: str, dry_run: bool, progress: Progress
    ) -> Outcome:
        """See :func:`millrace.operations.compaction.compact`."""
        from millrace.operations.compaction import compact

        return compact(self._application(application), options, reason=reason, dry_run=dry_run, progress=progress)

    def audit(
        self, application: str, *, sample: float, budget_s: float, stores: Sequence[str], progress: Progress
    ) -> AuditReport:
        """See :func:`millrace.operations.audit.audit`."""
        from millrace.operations.audit import AuditOptions, audit

        options = AuditOptions(sample=sample, budget_s=budget_s, stores=tuple(stores))
        return audit(self._application(application), options, progress=progress)

    def create_savepoint(
        self, application: str, *, name: str, reason: str, dry_run: bool, timeout_s: float, progress: Progress
    ) -> Outcome:
        """See :func:`millrace.operations.savepoints.create_savepoint`."""
        from millrace.operations.savepoints import create_savepoint

        return create_savepoint(
            self._application(application),
            name=name,
            reason=reason,
            dry_run=dry_run,
            timeout_s=timeout_s,
            progress=progress,
        )

    def list_savepoints(self, application: str) -> list[Manifest]:
        """See :func:`millrace.operations.savepoints.list_savepoints`."""
        from millrace.operations.savepoints import list_savepoints

        return list_savepoints(self._application(application))

    def verify_savepoint(self, application: str, name: str, *, progress: Progress) -> Outcome:
        """See :func:`millrace.operations.savepoints.verify_savepoint`."""
        from millrace.operations.savepoints import verify_savepoint

        return verify_savepoint(self._application(application), name, progress=progress)

    def prune_savepoints(self, application: str, *, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.operations.savepoints.prune_savepoints`."""
        from millrace.operations.savepoints import prune_savepoints

        return prune_savepoints(self._application(application), dry_run=dry_run)

    def is_savepoint_due(self, application: str) -> bool:
        """Whether the newest savepoint is older than ``savepoints.interval_s``; never where that is not set."""
        import time

        from millrace.operations.savepoints.history import is_due

        settings = self._application(application).launched.spec.savepoints
        return is_due(self.list_savepoints(application), settings, now=time.time())

    def restore_savepoint(
        self,
        application: str,
        savepoint: str,
        *,
        into: str,
        allow_dropped_stores: Sequence[str],
        allow_shared_outputs: Sequence[str],
        starts: Sequence[str],
        reason: str,
        dry_run: bool,
        progress: Progress,
    ) -> Outcome:
        """See :func:`millrace.operations.savepoints.restore_savepoint`; ``latest`` is the newest complete one."""
        from millrace.operations.savepoints import SavepointState, restore_savepoint

        if savepoint == LATEST:
            complete = [
                each.name for each in self.list_savepoints(application) if each.state is SavepointState.COMPLETED
            ]
            if not complete:
                raise OperationError(
                    f"{application} has no complete savepoint.", remedy="take one with the DAG millrace_savepoint"
                )
            savepoint = complete[-1]
        return restore_savepoint(
            self._application(application),
            savepoint,
            into=into,
            allow_dropped_stores=allow_dropped_stores,
            allow_shared_outputs=allow_shared_outputs,
            starts=starts,
            reason=reason,
            dry_run=dry_run,
            progress=progress,
        )

    def replay_dead_letter_records(
        self,
        application: str,
        selection: Selection,
        *,
        to_source_partition: bool,
        force: bool,
        reason: str,
        dry_run: bool,
        progress: Progress,
    ) -> Outcome:
        """See :func:`millrace.operations.dead_letters.replay_dead_letter_records`."""
        from millrace.operations.dead_letters import replay_dead_letter_records

        return replay_dead_letter_records(
            self._application(application),
            selection=selection,
            to_source_partition=to_source_partition,
            force=force,
            dry_run=dry_run,
            reason=reason,
            progress=progress,
        )

    def upgrade_report(self, application: str) -> UpgradeReport:
        """See :func:`millrace.supervise.upgrade_report.upgrade_report`."""
        from millrace.supervise.upgrade_report import upgrade_report

        return upgrade_report(self._application(application))

    def output_positions(self, application: str) -> tuple[TopicPosition, ...]:
        """See :func:`millrace.insight.positions.output_positions`."""
        from millrace.insight.positions import output_positions

        return output_positions(self._application(application))

    def export_metrics(self, *, pushgateway: str = "", text_file: str = "") -> ExportReport:
        """See :func:`millrace.insight.export.export_metrics`.

        Args:
            pushgateway: address of a Pushgateway; empty writes to the text file.
            text_file: its path; empty takes ``prometheus/exported.prom`` of the installation.
        """
        from millrace.insight.export import Pushgateway, TextFile, export_metrics

        target: MetricsTarget = (
            Pushgateway(pushgateway)
            if pushgateway
            else TextFile(Path(text_file) if text_file else self.home.root / "prometheus" / "exported.prom")
        )
        return export_metrics(self.home, [target])
