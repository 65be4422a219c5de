"""The journal of one operation: its plan, then a line before and after each step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from millrace.errors import OperationError
from millrace.install.files import now_text, strict_json
from millrace.install.home import ApplicationDirectory
from millrace.operations.operation import OperationPlan


class OperationState(StrEnum):
    """How far an operation is."""

    UNFINISHED = "UNFINISHED"
    COMPLETED = "COMPLETED"
    ABANDONED = "ABANDONED"


@dataclass(frozen=True, kw_only=True)
class OperationRecord:
    """An operation as its journal tells it.

    Args:
        id: ``<UTC time>-<kind>``; sorts by time.
        plan: what was decided.
        state: how far it is.
        begun_at: when, ISO 8601.
        ended_at: when it was completed or abandoned; empty before.
        results: what each completed step returned, by its name.
        step: the step that was begun last.
        error: why that step failed; empty where it did not, or was killed.
        requested_by: name of the requester that began it, see :class:`millrace.operations.Requester`.
    """

    id: str
    plan: OperationPlan
    state: OperationState
    begun_at: str
    ended_at: str = ""
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    step: str = ""
    error: str = ""
    requested_by: str = ""

    def __str__(self) -> str:
        where = f" at step {self.step}" if self.step and self.state is OperationState.UNFINISHED else ""
        why = f" ({self.error})" if self.error else ""
        return f"{self.plan.operation} {self.id} of {self.plan.application}: {self.state.lower()}{where}{why}"


class OperationJournal:
    """Appends to the journal of one operation; every line is on disk before the next thing happens.

    Args:
        directory: the application's directory.
        operation_id: the operation's id.
    """

    def __init__(self, directory: ApplicationDirectory, operation_id: str) -> None:
        self._path = directory.operations / f"{operation_id}.jsonl"

    def begin(self, plan: OperationPlan, *, requested_by: str = "") -> None:
        """The plan, and who asked for it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._append(
            {
                "plan": {
                    "operation": plan.operation,
                    "application": plan.application,
                    "reason": plan.reason,
                    "decisions": plan.decisions,
                    "holds_application": plan.holds_application,
                },
                "requested_by": requested_by,
            }
        )
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def step_begins(self, step: str) -> None:
        """A step is about to run."""
        self._append({"begin": step})

    def step_is_done(self, step: str, result: Mapping[str, Any]) -> None:
        """A step has done all of its work."""
        self._append({"done": step, "result": result})

    def step_failed(self, step: str, error: str) -> None:
        """A step raised."""
        self._append({"failed": step, "error": error})

    def end(self, state: OperationState, why: str) -> None:
        """Nothing more will be done."""
        self._append({"end": str(state), "why": why})

    def _append(self, line: Mapping[str, Any]) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, orjson.dumps({"at": now_text(), "by": os.getpid(), **strict_json(line)}) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def operations_of(directory: ApplicationDirectory, *, last: int | None = None) -> list[OperationRecord]:
    """The operations of an application, oldest first.

    Args:
        directory: the application's directory.
        last: how many at most, the newest ones; none gives all.

    Raises:
        OperationError: a journal cannot be understood.
    """
    paths = sorted(directory.operations.glob("*.jsonl"))
    records = [_read(path) for path in (paths if last is None else paths[-last:])]
    return [record for record in records if record is not None]


def unfinished_operation(directory: ApplicationDirectory) -> OperationRecord | None:
    """The operation that was begun and has neither completed nor been abandoned; there is one at most."""
    unfinished = [each for each in operations_of(directory) if each.state is OperationState.UNFINISHED]
    return unfinished[-1] if unfinished else None


def holding_operation(directory: ApplicationDirectory, *, within: str = "") -> OperationRecord | None:
    """The unfinished operation that keeps the application from being started.

    Args:
        directory: the application's directory.
        within: id of an operation that starts the application itself.
    """
    record = unfinished_operation(directory)
    return record if record is not None and record.plan.holds_application and record.id != within else None


def refuse_held(directories: Iterable[ApplicationDirectory], *, what: str, within: str = "") -> None:
    """Nothing, unless an operation holds the application.

    Args:
        directories: where its operations may be; those that do not exist have none.
        what: what is refused, as a verb.
        within: id of an operation that starts the application itself.

    Raises:
        OperationError: an operation holds it; the remedy says how to resume that.
    """
    for directory in directories:
        if (holding := holding_operation(directory, within=within)) is not None:
            raise refusal(holding, what=what)


def refusal(record: OperationRecord, *, what: str) -> OperationError:
    """Why something cannot be done while an operation has not ended.

    Args:
        record: the operation.
        what: what is refused, as a verb.
    """
    name = record.plan.application
    return OperationError(
        f"Cannot {what} {name}: {record}.",
        remedy=f"resume it with `millrace operations resume {name}`, or see `millrace operations list {name}`",
    )


def _read(path: Path) -> OperationRecord | None:
    lines = []
    for number, text in enumerate(path.read_bytes().split(b"\n")):
        if not text:
            continue
        try:
            lines.append(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            # Only the last line of a process that was killed while it wrote can be cut.
            if path.read_bytes().split(b"\n")[number + 1 :]:
                raise OperationError(
                    f"Line {number + 1} of {path} is no JSON.", remedy="bring the file back from a copy"
                ) from error
    if not lines:
        return None  # killed before its plan was written: nothing was done
    plan = lines[0]["plan"]
    results: dict[str, Mapping[str, Any]] = {}
    step = error_text = ended_at = ""
    state = OperationState.UNFINISHED
    for line in lines[1:]:
        if "begin" in line:
            step, error_text = line["begin"], ""
        elif "done" in line:
            results[line["done"]] = line["result"]
        elif "failed" in line:
            error_text = line["error"]
        elif "end" in line:
            state, ended_at = OperationState(line["end"]), line["at"]
    return OperationRecord(
        id=path.stem,
        plan=OperationPlan(**plan),
        state=state,
        begun_at=lines[0]["at"],
        ended_at=ended_at,
        results=results,
        step=step,
        error=error_text,
        requested_by=lines[0].get("requested_by", ""),
    )
