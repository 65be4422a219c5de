"""The options of a driver: its hooks into its surroundings, its settings, and how its process ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millrace.driver.driver_operations import DriverOperation
from millrace.driver.ending import ExitCode
from millrace.driver.health import HealthLimits
from millrace.driver.reporter import Prepared
from millrace.driver.restarts import RestartPolicy
from millrace.driver.status import ApplicationStatus, StreamThreadStatus
from millrace.topology.topic_partition import TopicPartition

__all__ = ["DriverHooks", "DriverSettings", "ExitCode"]


@dataclass(frozen=True, kw_only=True)
class DriverHooks:
    """The hooks of a driver into its surroundings.

    Args:
        preflight: checks what must hold before anything is touched; raises what does not.
        fence: initialises, so fences, each of these transactional ids; returns when all are.
        prepare: reads the committed offsets and makes the queries, given the last status of an older driver.
        warm_up: makes the first batch fast; called before the queries start.
        live_members: live members of the application's consumer group, each described in words.
        watch: checks at each heartbeat that no other client moved the application's offsets or deleted its topics.
        end_offsets: the last stable offset of each input partition now.
        high_watermarks: the end of each input partition's log now.
        stream_threads: the stream threads now, and that there are fewer than there are to be; none for micro-batches.
        cancel_jobs: cancels every job that runs for the application; called repeatedly once a newer driver took over.
        end_process: ends this process at once with an exit code; ``None`` where the process is not the driver's own.
        on_restart: called when a query has failed, with the number of its sub-topology.
        metrics: the metrics in Prometheus' text format.
        describe: the topology as text.
        picture: the topology as SVG.
        operations: what can be asked of it by name, see :mod:`millrace.driver.driver_operations`.
    """

    prepare: Callable[[ApplicationStatus | None], Prepared]
    preflight: Callable[[], None] = lambda: None
    fence: Callable[[Sequence[str]], None] = lambda _: None
    warm_up: Callable[[], None] = lambda: None
    live_members: Callable[[], Sequence[str]] = lambda: ()
    watch: Callable[[], None] = lambda: None
    end_offsets: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] = lambda _: {}
    high_watermarks: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] = lambda _: {}
    stream_threads: Callable[[], tuple[Sequence[StreamThreadStatus], str]] = lambda: ((), "")
    cancel_jobs: Callable[[], None] = lambda: None
    end_process: Callable[[int], None] | None = None
    on_restart: Callable[[int], None] = lambda _: None
    metrics: Callable[[], bytes] = lambda: b""
    describe: Callable[[], str] = lambda: ""
    picture: Callable[[], bytes] | None = None
    operations: Mapping[str, DriverOperation] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DriverSettings:
    """The settings of a driver.

    Args:
        control_file: where ``control.json`` goes while the driver lives.
        server_address: ``host:port`` of the control plane; port 0 takes a free one.
        token_file: file with the control plane's bearer token; ``None`` writes a random one beside ``control_file``.
        heartbeat_interval_s: longest time between two heartbeats, seconds.
        tick_interval_s: time between two looks whether an idle query has something to do, seconds.
        barrier_timeout_s: longest wait for running batches at a stop or pause, seconds.
        stop_timeout_s: longest wait for one query to stop, seconds.
        fenced_limit_s: longest time that a driver lives once it knows of a newer one, seconds.
        broker_timeout_s: how long each step of the start is repeated while no broker answers, seconds.
        restart: when to start a failed query again.
        health: how long things may take.
    """

    control_file: Path
    server_address: str = "127.0.0.1:0"
    token_file: Path | None = None
    heartbeat_interval_s: float = 3.0
    tick_interval_s: float = 1.0
    barrier_timeout_s: float = 60.0
    stop_timeout_s: float = 30.0
    fenced_limit_s: float = 1.5
    broker_timeout_s: float = 60.0
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    health: HealthLimits = field(default_factory=HealthLimits)
