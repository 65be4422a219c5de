"""The hook: where the installation is, and its operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook

from millrace import ops
from millrace.ops import Home, Outcome
from millrace.ops.supervise import owns, take_over


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

    def deploy(self, application: str, *, reason: str, dry_run: bool = False, **options: Any) -> Outcome:
        """See :func:`millrace.ops.deploy`, which takes ``options``."""
        return ops.deploy(self.home, application, reason=reason, dry_run=dry_run, **options)

    def recovery_drill(self, application: str, *, reason: str, dry_run: bool = False, **options: Any) -> Outcome:
        """See :func:`millrace.ops.recovery_drill`, which takes ``options``."""
        return ops.recovery_drill(self.home, application, reason=reason, dry_run=dry_run, **options)

    def wait_until_ready(self, application: str, *, timeout_s: float | None = None) -> ops.Observation:
        """See :func:`millrace.ops.wait_until_ready`."""
        return ops.wait_until_ready(self.home, application, timeout_s=timeout_s)

    def stop(self, application: str, *, reason: str, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.ops.stop`."""
        return ops.stop(self.home, application, reason=reason, dry_run=dry_run)

    def reconcile(self, application: str, *, dry_run: bool = False) -> Outcome:
        """See :func:`millrace.ops.reconcile`."""
        return ops.reconcile(self.home, application, dry_run=dry_run)

    def reconcile_all(self, *, dry_run: bool = False) -> list[Outcome]:
        """See :func:`millrace.ops.reconcile_all`."""
        return ops.reconcile_all(self.home, dry_run=dry_run)

    def take_over(self, application: str, *, owner: str) -> Outcome:
        """See :func:`millrace.ops.supervise.take_over`."""
        return take_over(self.home, application, owner=owner)

    def owns(self, application: str, *, owner: str) -> bool:
        """See :func:`millrace.ops.supervise.owns`."""
        return owns(self.home, application, owner=owner)

    def observe(self, application: str) -> ops.Observation:
        """See :func:`millrace.ops.observe`."""
        return ops.observe(self.home, application)
