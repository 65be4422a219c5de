"""Where contestants meet: one broker, topics for each run, one contestant at a time."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from millrace.embedded.broker import EmbeddedBroker
from millrace.home import millrace_home
from millrace.kafka.clients import client_log
from tests.bench.contestants import Contestant, Report, Run
from tests.bench.latency import LatencyFigures, Stream, measure_latency
from tests.bench.memory import MemoryMeter
from tests.bench.meter import Figures, Sample, figures_of, watch
from tests.bench.output import check_counts, read_updates
from tests.bench.recovery import RecoveryFigures, measure_recovery
from tests.bench.topics import create_topic, delete_topics, stable_end
from tests.bench.workloads import WindowCounts, Workload, load

_BROKER_HEAP = "1g"
_LONGEST_RUN_S = 600.0


@dataclass(frozen=True)
class LoadedTopic:
    """An input topic with a workload in it.

    Args:
        topic: its name.
        workload: what is in it.
        expected: the counts that it leads to.
    """

    topic: str
    workload: Workload
    expected: WindowCounts


class Arena:
    """Loads workloads into one broker and lets contestants run on them.

    Args:
        bootstrap_servers: of a running broker with nothing else to do.
        directory: for state, checkpoints and logs of the runs.
        report: gets a line of text for each step.
    """

    def __init__(self, bootstrap_servers: str, *, directory: Path, report: Report) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._directory = directory
        self._report = report
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers}, logger=client_log)
        # Names must be new for a broker that has been used before.
        self._session = f"bench-{time.time_ns() // 1_000_000}"
        self._runs = 0

    @contextmanager
    def loaded(self, workload: Workload) -> Iterator[LoadedTopic]:
        """A topic with the workload in it; it is deleted at the end."""
        topic = f"{self._session}-{workload.name.lower()}"
        create_topic(self._admin, topic, partitions=workload.partitions)
        begun = time.monotonic()
        expected = load(
            workload,
            bootstrap_servers=self._bootstrap_servers,
            topic=topic,
            on_progress=lambda loaded: self._report(f"loaded {loaded:,} of {workload.records:,} records"),
        )
        self._report(f"{workload.name} is loaded, {len(expected):,} counts, {time.monotonic() - begun:.1f} s")
        try:
            yield LoadedTopic(topic, workload, expected)
        finally:
            delete_topics(self._admin, [topic])

    def throughput(
        self,
        contestant: Contestant,
        loaded: LoadedTopic,
        *,
        observe: Callable[[Sample, int], None] = lambda _sample, _pid: None,
    ) -> Figures:
        """Run a contestant over a loaded topic from nothing, and check its output.

        Args:
            contestant: which.
            loaded: the topic.
            observe: gets each sample of its progress, and the number of its process.

        Raises:
            ContestantFailedError: it ended early or took longer than ten minutes.
            WrongOutputError: its output is not what the input leads to.
        """
        workload = loaded.workload
        with self._run(contestant, loaded.topic, workload.partitions) as run:
            self._report(f"{contestant.title} starts on {workload.name}")
            with closing(contestant.progress(run)) as progress, contestant.start(run) as process:
                memory = MemoryMeter(process.pid)
                tell = _every_seconds(5.0, self._report, records=workload.records)

                def on_sample(sample: Sample) -> None:
                    tell(sample)
                    memory.look()
                    observe(sample, process.pid)

                samples = watch(
                    progress,
                    partial(stable_end, self._admin, run.output_topic, partitions=run.partitions),
                    records=workload.records,
                    started_at=process.started_at,
                    check_alive=process.check_alive,
                    limit_s=_LONGEST_RUN_S,
                    on_sample=on_sample,
                )
            updates = read_updates(
                bootstrap_servers=self._bootstrap_servers, topic=run.output_topic, partitions=run.partitions
            )
            check_counts(updates, loaded.expected, exactly_once=contestant.exactly_once)
            figures = replace(
                figures_of(samples, records=workload.records),
                memory_bytes=memory.processes_bytes,
                worker_memory_bytes=memory.worker_bytes or None,
            )
            steady = f"{figures.steady_records_per_s:,.0f}" if figures.steady_records_per_s else "unknown"
            self._report(
                f"{contestant.title}: first output {figures.first_output_s:.1f} s, steady {steady} records/s, "
                f"whole run {figures.whole_run_s:.1f} s; {len(updates):,} updates, final counts right"
            )
            return figures

    def latency(self, contestant: Contestant, stream: Stream, *, partitions: int) -> LatencyFigures:
        """Run a contestant under a steady stream of payments.

        Raises:
            ContestantFailedError: it ended early, or counts are missing at the end.
        """
        topic = f"{self._session}-stream-{self._runs}"
        create_topic(self._admin, topic, partitions=partitions)
        try:
            with self._run(contestant, topic, partitions, through_repartition=stream.through_repartition) as run:
                self._report(f"{contestant.title} starts on {stream}")
                with contestant.start(run) as process:
                    figures = measure_latency(
                        bootstrap_servers=self._bootstrap_servers,
                        input_topic=topic,
                        output_topic=run.output_topic,
                        partitions=partitions,
                        check_alive=process.check_alive,
                        steady=stream,
                    )
            self._report(
                f"{contestant.title}: p50 {figures.p50_ms:,.0f} ms, p99 {figures.p99_ms:,.0f} ms, "
                f"longest {figures.worst_ms:,.0f} ms of {figures.records:,} records"
            )
            return figures
        finally:
            delete_topics(self._admin, [topic])

    def recovery(self, contestant: Contestant, *, partitions: int) -> RecoveryFigures:
        """Kill a contestant, and a worker of it, under a steady stream of payments.

        Raises:
            ContestantFailedError: it ended by itself, or did not recover.
        """
        topic = f"{self._session}-recovery-{self._runs}"
        create_topic(self._admin, topic, partitions=partitions)
        try:
            with self._run(contestant, topic, partitions) as run:
                self._report(f"{contestant.title} starts, to be killed")
                figures = measure_recovery(contestant, run)
            worker = "" if figures.worker_s is None else f", of a worker {figures.worker_s:.1f} s"
            self._report(f"{contestant.title}: recovery from a kill of its process {figures.process_s:.1f} s{worker}")
            return figures
        finally:
            delete_topics(self._admin, [topic])

    @contextmanager
    def _run(
        self, contestant: Contestant, input_topic: str, partitions: int, *, through_repartition: bool = False
    ) -> Iterator[Run]:
        self._runs += 1
        application_id = f"{self._session}-{contestant.name}-{self._runs}"
        directory = Path(tempfile.mkdtemp(prefix=f"{contestant.name}-", dir=self._directory))
        output_topic = f"{application_id}-output"
        create_topic(self._admin, output_topic, partitions=partitions)
        run = Run(
            bootstrap_servers=self._bootstrap_servers,
            application_id=application_id,
            input_topic=input_topic,
            output_topic=output_topic,
            partitions=partitions,
            directory=directory,
            through_repartition=through_repartition,
        )
        try:
            yield run
        except Exception:
            self._keep_log(run, contestant)
            raise
        finally:
            # The output and, with it, what the contestant made under its own name: changelogs.
            mine = [topic for topic in self._admin.list_topics(timeout=30).topics if topic.startswith(application_id)]
            delete_topics(self._admin, mine)
            shutil.rmtree(directory)

    def _keep_log(self, run: Run, contestant: Contestant) -> None:
        log = run.directory / "log"
        if log.exists():
            kept = self._directory.parent / f"failed-{contestant.name}.log"
            shutil.copyfile(log, kept)
            self._report(f"{contestant.title} failed; its log is kept in {kept}")


def _every_seconds(interval_s: float, report: Report, *, records: int) -> Callable[[Sample], None]:
    next_at = interval_s

    def on_sample(sample: Sample) -> None:
        nonlocal next_at
        if sample.at_s >= next_at:
            next_at = sample.at_s + interval_s
            report(f"  {sample.at_s:5.1f} s: {sample.processed / records:4.0%} committed")

    return on_sample


@contextmanager
def open_arena(*, bootstrap_servers: str | None, report: Report) -> Iterator[Arena]:
    """An arena with a broker of its own, which is stopped and removed at the end.

    Args:
        bootstrap_servers: use this broker instead.
        report: gets a line of text for each step.
    """
    home = millrace_home() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="arena-", dir=home))
    try:
        if bootstrap_servers is not None:
            yield Arena(bootstrap_servers, directory=directory, report=report)
            return
        broker = EmbeddedBroker(directory / "broker", heap=_BROKER_HEAP)
        broker.start(progress=report)
        try:
            yield Arena(broker.bootstrap_servers, directory=directory, report=report)
        finally:
            broker.stop()
    finally:
        shutil.rmtree(directory)
