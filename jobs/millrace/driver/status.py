"""The status of an application: the record in ``_millrace-status``, and the answer of ``/status``."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace.driver.lifecycle import ApplicationState
from millrace.errors import SerializationError
from millrace.processes import ProcessIdentity


class _StatusModel(BaseModel):
    # A reader may be older than the driver that wrote the record, so fields that it does not know are no error.
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")


class DriverIdentity(_StatusModel):
    """The identity of a driver's process: equal only if host, pid and start time all match."""

    host: str = Field(description="Host name.")
    pid: int = Field(description="Process id.")
    start_time: int = Field(description="When the kernel started the process, as in ProcessIdentity.")

    @classmethod
    def of_this_process(cls) -> DriverIdentity:
        """Returns the identity of the calling process."""
        process = ProcessIdentity.current()
        return cls(host=socket.gethostname(), pid=process.pid, start_time=process.start_time)

    @property
    def process(self) -> ProcessIdentity:
        """The process, for use on the driver's own host."""
        return ProcessIdentity(self.pid, self.start_time)


class SubTopologyStatus(_StatusModel):
    """The status of a sub-topology's query."""

    batch_id: int = Field(-1, description="Spark's number of the last batch; -1 before the first.")
    batches: int = Field(0, description="Batches finished since the driver started.")
    records: int = Field(0, description="Input records processed since the driver started.")
    active: bool = Field(False, description="Whether the streaming query runs.")
    last_batch_started_at: float | None = Field(None, description="Seconds since the epoch.")
    last_batch_finished_at: float | None = Field(None, description="Seconds since the epoch.")
    longest_batch_s: float = Field(0.0, description="Longest of the last twenty batches, seconds.")
    last_commit_at: float | None = Field(
        None,
        description="When a commit last moved an offset, seconds since the epoch; none in this run yet where absent.",
    )
    lag: int | None = Field(None, description="Records behind, summed over the partitions whose lag is known.")
    lag_since: float | None = Field(None, description="Since when the lag has not been 0, seconds since the epoch.")
    last_progress_at: float | None = Field(
        None, description="When offsets, batches or a restore last moved, seconds since the epoch."
    )
    restarts: int = Field(0, description="Restarts of the query without progress in between.")
    task_states: dict[str, str] = Field(default_factory=dict, description="State by task id.")
    restore_remaining: dict[str, int] = Field(
        default_factory=dict, description="Changelog records still to apply, by id of the restoring task."
    )
    restore_rates: dict[str, float] = Field(
        default_factory=dict, description="Changelog records applied per second, by id of the restoring task."
    )

    def restore_eta_s(self, task: str) -> float | None:
        """Returns the seconds until a task is restored, at its current rate.

        It is ``None`` where nothing remains or the rate is not known.
        """
        remaining, rate = self.restore_remaining.get(task, 0), self.restore_rates.get(task, 0.0)
        return remaining / rate if remaining and rate > 0 else None


class StreamThreadStatus(_StatusModel):
    """The status of a stream thread."""

    slot: int = Field(description="Number of its Spark task.")
    worker: str = Field(description="host/pid of its process.")
    tasks: list[str] = Field(default_factory=list, description="Ids of its tasks.")
    leaving: list[str] = Field(default_factory=list, description="Those that it is to hand over to another thread.")
    standbys: list[str] = Field(default_factory=list, description="Tasks of which it keeps a standby copy.")
    standby_lag: int | None = Field(
        None,
        description="Changelog offsets that these copies lack; absent where that is not known, or there are none.",
    )
    standby_problems: list[str] = Field(default_factory=list, description="Why copies do not follow.")
    poll: float = Field(0.0, description="Part of the last half minute that it spent reading.")
    process: float = Field(0.0, description="The same in processing.")
    commit: float = Field(0.0, description="The same in commits during which nothing else could be done.")
    idle: float = Field(0.0, description="The same with nothing to do.")
    commits_per_s: float = Field(0.0, description="Commits of tasks, a second, over that time.")
    commit_latency_s: float | None = Field(None, description="Mean time of a commit over that time, seconds.")
    longest_commit_s: float = Field(0.0, description="Longest commit of the last report, seconds.")


class InputEnd(_StatusModel):
    """The ends of an input partition: the last stable offset and the high watermark."""

    last_stable: int = Field(description="Last stable offset: up to it a reader of committed records may read.")
    high_watermark: int = Field(description="End of the log, records of open transactions included.")
    held_back_since: float | None = Field(
        None,
        description="Since when the application has read up to the first record of an open transaction and waits "
        "there, seconds since the epoch.",
    )


class ApplicationStatus(_StatusModel):
    """The whole status of an application, as its driver sees it."""

    application_id: str
    state: ApplicationState
    reason: str = Field("", description="Why it is in this state.")
    remedy: str = Field("", description="What the operator should do now.")
    paused: bool = False
    control_address: str = Field("", description="http://host:port of the control plane.")
    driver: DriverIdentity
    driver_epoch: int = Field(description="Number of the driver; a higher one took over from all lower ones.")
    run_id: str = Field("", description="Identifies this run of the driver.")
    topology_fingerprint: str = ""
    topology_summary: dict[str, Any] = Field(default_factory=dict)
    transactional_ids: list[str] = Field(
        default_factory=list, description="Every id that this run, or a run before that is not fenced yet, may use."
    )
    offsets: dict[str, dict[int, int]] = Field(
        default_factory=dict, description="Mirror of the group's committed offsets: topic, partition, offset."
    )
    topic_ids: dict[str, str] = Field(default_factory=dict, description="UUID of each input topic.")
    partitions: dict[str, int] = Field(default_factory=dict, description="Number of partitions of each input topic.")
    changelog_topic_ids: dict[str, str] = Field(
        default_factory=dict, description="UUID of each changelog topic that is not an input topic as well."
    )
    global_topic_ids: dict[str, str] = Field(
        default_factory=dict, description="UUID of each topic of a global store; the group does not consume them."
    )
    lag: dict[str, dict[int, int]] = Field(
        default_factory=dict,
        description="Records up to the last stable offset, by topic and partition; unknown ones are absent.",
    )
    lag_at: float | None = Field(None, description="When the ends were read that the lag counts to.")
    input_ends: dict[str, dict[int, InputEnd]] = Field(
        default_factory=dict,
        description="Both ends of each input partition as of lag_at; in the topic of those where they differ.",
    )
    broker_answered_at: float | None = Field(
        None, description="When a broker last answered the driver, seconds since the epoch; absent before it ever did."
    )
    progress: dict[int, SubTopologyStatus] = Field(default_factory=dict, description="By sub-topology.")
    task_hosts: dict[str, str] = Field(default_factory=dict, description="host/pid of the worker, by task id.")
    stream_threads: list[StreamThreadStatus] = Field(
        default_factory=list, description="The stream threads that are connected; none where it runs in micro-batches."
    )
    shortage: str = Field("", description="That fewer stream threads run than there are to be, and what to do.")
    processing_guarantee: str = ""
    commit_interval_ms: int = Field(
        0, description="Time between two commits of a task: so long records may wait without a reason to look."
    )
    heartbeat_interval_ms: int = Field(3_000, description="Longest time between two of these records.")
    started_at: float = Field(0.0, description="When the driver started, seconds since the epoch.")
    updated_at: float = Field(default_factory=time.time, description="Seconds since the epoch.")

    @property
    def total_lag(self) -> int | None:
        """Lag over all partitions whose lag is known, in records; ``None`` if it is known for none."""
        lags = [lag for partitions in self.lag.values() for lag in partitions.values()]
        return sum(lags) if lags else None

    @property
    def last_commit_at(self) -> float | None:
        """Time of the last commit that moved an offset; ``None`` if none has since the driver started."""
        known = [each.last_commit_at for each in self.progress.values() if each.last_commit_at is not None]
        return max(known, default=None)

    @property
    def held_back(self) -> dict[tuple[str, int], InputEnd]:
        """The input partitions in which an open transaction holds the application back."""
        return {
            (topic, partition): end
            for topic, ends in self.input_ends.items()
            for partition, end in ends.items()
            if end.held_back_since is not None
        }

    @property
    def restore_remaining(self) -> int:
        """Changelog records that remain to be restored, over all tasks."""
        return sum(sum(each.restore_remaining.values()) for each in self.progress.values())

    @property
    def restore_rate(self) -> float:
        """Changelog records that are restored per second, over all tasks."""
        return sum(sum(each.restore_rates.values()) for each in self.progress.values())

    @property
    def restore_eta_s(self) -> float | None:
        """Seconds until all tasks are restored; ``None`` if nothing remains or the rate is not known."""
        remaining, rate = self.restore_remaining, self.restore_rate
        return remaining / rate if remaining and rate > 0 else None

    def to_json(self) -> bytes:
        """Returns the status as UTF-8 JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, data: bytes) -> ApplicationStatus:
        """Parses the output of :meth:`to_json`; unknown fields are ignored.

        Raises:
            SerializationError: it is no JSON, or a field that must be there is not or has another type.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise SerializationError(
                f"A status record cannot be read: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}.",
                remedy="read it with the version of Millrace that wrote it, or a newer one",
            ) from error


def newest_records(records: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """Returns the newest record of each application id, given the topic's records in the order of the log.

    The highest driver epoch of a key wins, and of that the last record: a late record of a fenced driver, aborted but
    visible to a reader of uncommitted records, changes nothing. A tombstone discards all earlier records of its key.
    A record without an epoch is none of ours.
    """
    newest: dict[str, tuple[int, bytes]] = {}
    for key, value in records:
        if value is None:
            newest.pop(key, None)
            continue
        epoch = _epoch(value)
        if epoch is not None and (key not in newest or epoch >= newest[key][0]):
            newest[key] = (epoch, value)
    return {key: value for key, (_, value) in newest.items()}


def _epoch(value: bytes) -> int | None:
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    epoch = fields.get("driver_epoch") if isinstance(fields, dict) else None
    return epoch if isinstance(epoch, int) else None
