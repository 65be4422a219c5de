"""The record of a job: what was launched, by whom, and whether it should run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from millrace.errors import OperationError
from millrace.install.files import read_json, write_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers import launcher_of_kind
from millrace.install.launchers.instance import DriverInstance, is_alive
from millrace.processes import ProcessIdentity


class DesiredState(StrEnum):
    """The desired state: what the last operation asked for."""

    RUNNING = "running"
    STOPPED = "stopped"


class StopCause(StrEnum):
    """The cause of a stop; a new supervising task restarts only what a killed one stopped."""

    PLANNED = "planned"
    TASK_KILLED = "task_killed"


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The job of an application, as this installation knows it.

    Args:
        application: its name.
        desired: what the last operation asked for.
        driver: the driver that was launched last, or none if none was yet.
        owner: ``run_id/try_number`` of the supervising task, empty if none supervises it.
        spec_hash: hash of the specification that it was launched with.
        launcher: kind of the launcher.
        launched_at: when it was launched last, seconds since the epoch; 0 if never.
        restarts: restarts since it last ran long enough without one.
        stop_cause: who asked for the stop, where ``desired`` is stopped.
        last_reason: why the last operation did what it did.
        not_before: the next launch is not tried before that, seconds since the epoch; 0 if it may come at once.
        rejected_hash: hash of the specification that was rolled back: supervision does not go to it by itself.
        savepoint: name of the savepoint that was taken before the specification that runs replaced another one.
    """

    application: str
    desired: DesiredState
    driver: DriverInstance | None = None
    owner: str = ""
    spec_hash: str = ""
    launcher: str = ""
    launched_at: float = 0.0
    restarts: int = 0
    stop_cause: StopCause | None = None
    last_reason: str = ""
    not_before: float = 0.0
    rejected_hash: str = ""
    savepoint: str = ""

    @property
    def process(self) -> ProcessIdentity | None:
        """The driver's process, where it runs on this host."""
        return self.driver.process if self.driver is not None else None

    def is_driver_alive(self, directory: ApplicationDirectory) -> bool:
        """Returns whether the very driver that was launched still runs.

        Raises:
            OperationError: it runs elsewhere, and no process can be asked.
        """
        return is_alive(self.driver, directory)

    def with_changes(self, **changes: Any) -> JobRecord:
        """Returns a copy with some fields changed."""
        return replace(self, **changes)


def read_record(directory: ApplicationDirectory) -> JobRecord | None:
    """Returns the application's record, or none if it was never deployed here.

    Raises:
        OperationError: the record is there and cannot be understood.
    """
    values = read_json(directory.record)
    if values is None:
        return None
    try:
        cause = values.get("stop_cause")
        launcher = str(values.get("launcher", ""))
        return JobRecord(
            application=str(values["application"]),
            desired=DesiredState(values["desired"]),
            driver=launcher_of_kind(launcher or "local").instance_of(values),
            owner=str(values.get("owner", "")),
            spec_hash=str(values.get("spec_hash", "")),
            launcher=launcher,
            launched_at=float(values.get("launched_at", 0.0)),
            restarts=int(values.get("restarts", 0)),
            stop_cause=StopCause(cause) if cause else None,
            last_reason=str(values.get("last_reason", "")),
            not_before=float(values.get("not_before", 0.0)),
            rejected_hash=str(values.get("rejected_hash", "")),
            savepoint=str(values.get("savepoint", "")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise OperationError(
            f"{directory.record} is not a record of a job: {error}.",
            remedy="stop the job (`millrace stop`), remove the file and deploy again",
        ) from error


def write_record(directory: ApplicationDirectory, record: JobRecord) -> None:
    """Replaces the application's record as a whole. The caller holds the application's lock."""
    driver = record.driver.to_mapping() if record.driver else {}
    write_json(
        directory.record,
        {
            "application": record.application,
            "desired": record.desired.value,
            **driver,
            "owner": record.owner,
            "spec_hash": record.spec_hash,
            "launcher": record.launcher,
            "launched_at": record.launched_at,
            "restarts": record.restarts,
            "stop_cause": record.stop_cause.value if record.stop_cause else None,
            "last_reason": record.last_reason,
            "not_before": record.not_before,
            "rejected_hash": record.rejected_hash,
            "savepoint": record.savepoint,
        },
    )
