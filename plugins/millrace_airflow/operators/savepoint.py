"""Operators that take and restore savepoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from millrace.errors import OperationError
from millrace.install.which_spec import Use
from millrace.operations import Outcome
from millrace_airflow.hooks.millrace import LATEST, MillraceHook
from millrace_airflow.operators.operation import MillraceOperationOperator
from millrace_airflow.values import is_true, names


class MillraceSavepointOperator(MillraceOperationOperator):
    """Takes a savepoint of a running or stopped application, checks it if asked to, and deletes those that expired.

    Args:
        name: of the savepoint, empty takes the time; templated.
        timeout_s: longest time for the driver's part, seconds; templated.
        verify: read all files of it again and compare them with the manifest; templated.
        prune: delete the savepoints that the specification does not keep; templated.
        kwargs: see :class:`MillraceOperationOperator`.
    """

    template_fields: Sequence[str] = (
        *MillraceOperationOperator.template_fields,
        "name",
        "timeout_s",
        "verify",
        "prune",
    )

    def __init__(
        self,
        *,
        name: str = "",
        timeout_s: float | str = 600.0,
        verify: bool | str = False,
        prune: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.timeout_s = timeout_s
        self.verify = verify
        self.prune = prune

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Take it."""
        return hook.create_savepoint(
            self.application,
            name=self.name,
            reason=self.reason,
            dry_run=dry_run,
            timeout_s=float(self.timeout_s),
            progress=self.log_progress,
        )

    def finish(self, hook: MillraceHook, outcome: Outcome) -> None:
        """Check and prune."""
        if is_true(self.verify) and not outcome.dry_run:
            verified = hook.verify_savepoint(
                self.application, outcome.results["complete"]["name"], progress=self.log_progress
            )
            self.log.info("verified: %s", verified.text)
        if is_true(self.prune):
            pruned = hook.prune_savepoints(self.application, dry_run=outcome.dry_run)
            self.log.info("pruned: %s", pruned.text)
            for step in pruned.steps:
                self.log.info("  %s", step)

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:
        """Name and size."""
        done = outcome.results["complete"]
        return {"savepoint": done["name"], "bytes": done["bytes"], "copied_bytes": done["copied_bytes"]}

    def what_next(self, outcome: Outcome) -> str:
        """How to restore it."""
        return f"nothing more; millrace_restore brings {self.application}/{outcome.results['complete']['name']} back"


class MillraceRestoreOperator(MillraceOperationOperator):
    """Brings an application, or a clone of it, back to a savepoint.

    Args:
        savepoint: ``application/name``; ``latest`` as name is the newest complete one; templated.
        into: the application that gets it, empty takes the one it is of; templated.
        allow_dropped_stores: names separated by commas; templated.
        allow_shared_outputs: names separated by commas; templated.
        starts: ``TOPIC=earliest`` and the like, separated by commas; templated.
        stop: stop the application that gets it first; templated.
        kwargs: see :class:`MillraceOperationOperator`; ``application`` is not given.
    """

    template_fields: Sequence[str] = (
        *MillraceOperationOperator.template_fields,
        "savepoint",
        "into",
        "allow_dropped_stores",
        "allow_shared_outputs",
        "starts",
        "stop",
    )

    def __init__(
        self,
        *,
        savepoint: str,
        into: str = "",
        allow_dropped_stores: str = "",
        allow_shared_outputs: str = "",
        starts: str = "",
        stop: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(application="", **kwargs)
        self.savepoint = savepoint
        self.into = into
        self.allow_dropped_stores = allow_dropped_stores
        self.allow_shared_outputs = allow_shared_outputs
        self.starts = starts
        self.stop = stop

    def execute(self, context: Context) -> dict[str, Any]:
        """Restore it."""
        self.application = self.savepoint.partition("/")[0]
        results: dict[str, Any] = super().execute(context)
        return results

    def difference(self, hook: MillraceHook) -> str:
        """A restoration is about the next start of the application that gets the savepoint."""
        name = self.into or self.savepoint.partition("/")[0]
        return hook.difference_note(name, Use.DEPLOYMENT) if name else ""

    @property
    def target(self) -> str:
        """The application that gets the savepoint."""
        return self.into or self.application

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        """Restore it."""
        application, _, name = self.savepoint.partition("/")
        if not name:
            raise OperationError(
                f"{self.savepoint!r} names no savepoint.", remedy=f"write application/name, or application/{LATEST}"
            )
        if is_true(self.stop):
            stopped = hook.stop(self.target, reason=self.reason, dry_run=dry_run)
            self.log.info("stop: %s, %s", stopped.action, stopped.text)
        return hook.restore_savepoint(
            application,
            name,
            into=self.into,
            allow_dropped_stores=names(self.allow_dropped_stores),
            allow_shared_outputs=names(self.allow_shared_outputs),
            starts=names(self.starts),
            reason=self.reason,
            dry_run=dry_run,
            progress=self.log_progress,
        )

    def what_next(self, outcome: Outcome) -> str:  # noqa: ARG002
        """The application is stopped now."""
        return f"it does not run; start it with millrace_deploy, application {self.target}"
