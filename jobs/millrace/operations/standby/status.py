"""The status of a standby: a file beside its copies, and metrics."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace.errors import SerializationError
from millrace.files import write_atomically
from millrace.metrics.definitions import STANDBY_BEHIND, STANDBY_LAG, STANDBY_METRICS, STANDBY_RECORDS, MetricDefinition
from millrace.processes import ProcessIdentity
from millrace.state import StateDirectory

STATUS_FILE = "standby.json"


class TaskCopyStatus(BaseModel):
    """The status of one copy."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    state: str = Field(
        description="opening, copying, done (`once`), owned (a task or another standby has it), given up, failed."
    )
    lag: int | None = Field(None, description="Changelog offsets that the copy does not have yet.")
    caught_up: bool = Field(False, description="Whether the lag is within acceptable.recovery.lag.")
    records: int = Field(0, description="Records applied since the copy was opened.")
    records_per_s: float = Field(0.0, description="Rate since then.")
    behind_s: float | None = Field(None, description="Seconds since the copy last had everything.")
    positions: dict[str, int] = Field(default_factory=dict, description="Next changelog offset, by store.")
    run: int = Field(0, description="Run of the application whose changelogs the copy was begun from; 0: not known.")
    problem: str = Field("", description="Why it failed, or who has it.")


class StandbyStatus(BaseModel):
    """A standby of one application."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    application_id: str
    pid: int
    start_time: int
    updated_at: float = Field(description="Seconds since the epoch.")
    acceptable_recovery_lag: int
    tasks: dict[str, TaskCopyStatus] = Field(default_factory=dict)

    @property
    def process(self) -> ProcessIdentity:
        """The standby's process, for use on its own host."""
        return ProcessIdentity(self.pid, self.start_time)

    @property
    def lag(self) -> int | None:
        """Offsets that the copies do not have, over all tasks; ``None`` where it is not known of one."""
        lags = [task.lag for task in self.tasks.values() if task.state in {"copying", "done"}]
        return None if any(lag is None for lag in lags) else sum(lag for lag in lags if lag is not None)


def status_path(state_dir: Path, application_id: str) -> Path:
    """Returns the file of a standby's status."""
    return StateDirectory(state_dir).application(application_id) / STATUS_FILE


def write_standby_status(path: Path, status: StandbyStatus) -> None:
    """Replaces the file at once, so that no reader sees half of it."""
    write_atomically(path, status.model_dump_json(indent=1).encode(), waits_for_disk=False)


def read_standby_status(state_dir: Path, application_id: str) -> StandbyStatus | None:
    """Returns the last status of the standby that keeps copies in ``state_dir``; ``None`` where there never was one.

    Raises:
        SerializationError: the file is not readable.
    """
    path = status_path(state_dir, application_id)
    try:
        return StandbyStatus.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise SerializationError(
            f"The status of the standby in {path} cannot be read: {error.errors()[0]['msg']}.",
            remedy="delete the file; a running standby writes it again within a second",
        ) from error


class StandbyMetrics:
    """The gauges of a standby, for Prometheus."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self.registry = CollectorRegistry()
        self._gauges = {metric: self._gauge(metric) for metric in STANDBY_METRICS}

    def show(self, status: StandbyStatus) -> None:
        """Takes the values of a status; tasks that are not copied any more disappear."""
        for gauge in self._gauges.values():
            gauge.clear()
        for name, task in status.tasks.items():
            if task.state == "copying":
                values = {STANDBY_RECORDS: task.records, STANDBY_LAG: task.lag, STANDBY_BEHIND: task.behind_s}
                for metric, value in values.items():
                    if value is not None:
                        self._gauges[metric].labels(self._application_id, name).set(value)

    def _gauge(self, metric: MetricDefinition) -> Gauge:
        return Gauge(metric.name, metric.help, ("application_id", *metric.labels), registry=self.registry)
