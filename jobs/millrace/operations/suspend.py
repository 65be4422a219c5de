"""Suspend an application: it is stopped, and its specification says that it should not run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from millrace.errors import OperationError
from millrace.files import write_atomically
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.spec import RunState, load_named_spec
from millrace.operations.outcome import Outcome
from millrace.operations.stop import stop

_STATE_LINE = re.compile(r"^state:[^\n]*$", re.MULTILINE)


def suspend(application: Application, *, reason: str, dry_run: bool = False) -> Outcome:
    """Writes ``state: suspended`` into the specification, then stops the application.

    No deployment and no reconcile starts it before the file says ``state: running`` again (:func:`set_run_state`, or
    an editor). A crash between the two leaves a job that the next reconcile stops.

    Args:
        application: which.
        reason: for the record and the journal.
        dry_run: only say what would be done.

    Raises:
        ConfigurationError: there is no valid specification.
        OperationError: the specification cannot be written, or the stop failed.
    """
    path = application.spec_path
    load_named_spec(path)
    if not dry_run:
        set_run_state(application, RunState.SUSPENDED, reason=reason)
    outcome = stop(application, reason=reason, dry_run=dry_run)
    return replace(outcome, operation="suspend", steps=(f"write `state: suspended` into {path}", *outcome.steps))


def set_run_state(application: Application, state: RunState, *, reason: str) -> None:
    """Changes ``state`` in an application's specification; everything else in the file stays as it is.

    Raises:
        ConfigurationError: there is no valid specification.
        OperationError: it cannot be written.
    """
    path = application.spec_path
    if load_named_spec(path).spec.state is state:
        return
    before = path.read_text(encoding="utf-8")
    line = f"state: {state.value}"
    after = _STATE_LINE.sub(line, before, count=1) if _STATE_LINE.search(before) else f"{before.rstrip()}\n{line}\n"
    _write(path, after)
    if load_named_spec(path).spec.state is not state:
        _write(path, before)
        raise OperationError(f"{path} does not take `{line}`.", remedy="write it there by hand")
    append_journal(application.directory, "state", state.value, reason=reason)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise OperationError(
            f"{path} cannot be written: {error}.", remedy="correct its permissions, or set `state` where it comes from"
        ) from error
