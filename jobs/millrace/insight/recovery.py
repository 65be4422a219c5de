"""How long the tasks of an application would take to restore their stores on this host, as its changelogs are now."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.install.application import Application
from millrace.sizing.recovery import RESTORE_RECORDS_PER_S, RESTORE_START_S, estimate_restore_time

if TYPE_CHECKING:
    # Importing what reads stores and standbys takes a second, and DAG files import the package that this is in.
    from millrace.config import StreamsConfig
    from millrace.kafka.admin import KafkaAdmin
    from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True, kw_only=True)
class RecoveryEstimate:
    """What a restoration on this host would take.

    Args:
        application: its name.
        tasks: tasks with stores that changelogs back.
        records: offsets of all changelogs; after compaction fewer records are left, so it is at most that.
        restore_s: until all stores are whole without a standby, seconds.
        standby_records: what the copies of the standby lack; without one that runs, as much as
            ``acceptable.recovery.lag`` allows for each task.
        standby_restore_s: until all stores are whole with the copies, seconds.
        standby_runs: whether the lag is that of a standby on this host.
        records_per_s: the rate of one restoration that was assumed.
        measured: whether this host has shown that rate.
    """

    application: str
    tasks: int
    records: int
    restore_s: float
    standby_records: int
    standby_restore_s: float
    standby_runs: bool
    records_per_s: float
    measured: bool

    def summary(self) -> dict[str, Any]:
        """A small document for JSON."""
        return {**self.__dict__, "host": socket.gethostname()}


def recovery_estimate(application: Application, *, standby_state_dir: Path | None = None) -> RecoveryEstimate:
    """How long a restoration would take, from the broker's offsets and the rate that this host has shown.

    Args:
        application: name of the application.
        standby_state_dir: where the standby keeps its copies; the application's ``state.dir`` by default.

    Raises:
        ConfigurationError: there is no valid specification.
        PreflightError: input topics are missing.
        BrokerUnavailableError: no broker answers.
    """
    from millrace.driver.matched_topics import with_topics_read
    from millrace.dsl.loading import load_topology

    spec = application.launched.spec
    config = spec.streams_config()
    topology = with_topics_read(load_topology(spec.module, config), config)
    return estimate_for(config, topology, standby_state_dir=standby_state_dir)


def estimate_for(
    config: StreamsConfig,
    topology: FrozenTopology,
    *,
    standby_state_dir: Path | None = None,
    admin: KafkaAdmin | None = None,
) -> RecoveryEstimate:
    """As :func:`recovery_estimate`, for a topology at hand.

    Args:
        config: the application's configuration.
        topology: its topology.
        standby_state_dir: where the standby keeps its copies; the application's ``state.dir`` by default.
        admin: an administrator of the cluster, where there is one.

    Raises:
        MillraceError: as :func:`recovery_estimate`.
    """
    from millrace.install.connection import admin_of
    from millrace.kafka.offsets import begin_offsets, end_offsets
    from millrace.operations.standby.tasks import copied_tasks
    from millrace.state import StateDirectory
    from millrace.state.restore_rate import kept_rate

    admin = admin or admin_of(config)
    state_dir = Path(config.state_dir)
    tasks = copied_tasks(config, topology, admin, state_dir=state_dir)
    places = {name: [(topic, task.partition) for topic in task.changelogs.values()] for name, task in tasks.items()}
    everything = [place for of_task in places.values() for place in of_task]
    begins, ends = begin_offsets(admin, everything), end_offsets(admin, everything)
    whole = [ends[place] - begins[place] for place in everything]
    lags, runs = _standby_lags(config, standby_state_dir or state_dir)
    tails = [
        min(lags.get(name, config.acceptable_recovery_lag), sum(ends[place] - begins[place] for place in of_task))
        for name, of_task in places.items()
    ]
    rate = kept_rate(StateDirectory(state_dir).application(config.application_id))
    records_per_s = rate.records_per_s if rate else RESTORE_RECORDS_PER_S

    def seconds(records: list[int]) -> float:
        return estimate_restore_time(
            records,
            restore_threads=config.restore_threads,
            records_per_s=records_per_s,
            restore_start_s=rate.start_s if rate else RESTORE_START_S,
        )

    return RecoveryEstimate(
        application=config.application_id,
        tasks=len(tasks),
        records=sum(whole),
        restore_s=seconds(whole),
        standby_records=sum(tails),
        standby_restore_s=seconds(tails),
        standby_runs=runs,
        records_per_s=records_per_s,
        measured=rate is not None,
    )


def _standby_lags(config: StreamsConfig, state_dir: Path) -> tuple[dict[str, int], bool]:
    from millrace.operations.standby.status import read_standby_status

    status = read_standby_status(state_dir, config.application_id)
    if status is None or not status.process.is_alive():
        return {}, False
    lags = {name: task.lag for name, task in status.tasks.items() if task.lag is not None}
    return lags, bool(lags)
