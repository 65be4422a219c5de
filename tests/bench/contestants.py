"""What a contestant of the benchmark is, and the two that are not Millrace."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millrace.errors import PreflightError
from millrace.home import millrace_home
from millrace.kafka.jars import BROKER_JARS, SPARK_KAFKA_JARS, STREAMS_JARS, class_path, resolve_jars
from millrace.kafka.java import find_java
from tests.bench.meter import GroupProgress, ProgressSource, SparkProgress
from tests.bench.processes import ContestantProcess
from tests.bench.workloads import GRACE_MS, WINDOW_MS

Report = Callable[[str], None]
"""Gets a line of text for each step."""

REPOSITORY = Path(__file__).resolve().parents[2]
_JAVA_SOURCE = Path(__file__).parent / "java" / "KafkaStreamsBench.java"
_JAVA_HEAP = "-Xmx4g"
STREAM_THREADS = 2
"""One for each core of the reference machine, as Spark's ``local[2]``; more only adds switches between them."""
SPARK_RECORDS_PER_TRIGGER = 250_000
"""Spark's batches: large enough that the fixed cost of a batch (half a second) is a small part of it, small enough
that a run of 3 M records has a steady state to measure."""


@dataclass(frozen=True)
class Run:
    """What a contestant is told.

    Args:
        bootstrap_servers: of the broker.
        application_id: new for each run.
        input_topic: keys are user ids, values JSON payments.
        output_topic: exists, with as many partitions as the input.
        partitions: of both topics.
        directory: a new directory for state, checkpoints and logs; removed after the run.
        through_repartition: whether each payment goes through a repartition topic before it is counted.
    """

    bootstrap_servers: str
    application_id: str
    input_topic: str
    output_topic: str
    partitions: int
    directory: Path
    through_repartition: bool = False


class Contestant(Protocol):
    """Something that counts payments per user and minute.

    Attributes:
        name: on the command line.
        title: in tables.
        exactly_once: whether its output may not hold a count twice.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def exactly_once(self) -> bool: ...

    def prepare(self, report: Report) -> None:
        """Whatever happens once and is not measured: downloads, compilation; ``report`` gets a line for each step."""

    def start(self, run: Run) -> ContestantProcess:
        """Start it; the clock runs from here."""

    def progress(self, run: Run) -> ProgressSource:
        """Where its progress is read."""


@dataclass(frozen=True)
class KafkaStreamsContestant:
    """Kafka Streams in Java, ``exactly_once_v2``.

    Args:
        name: on the command line.
        title: in tables.
        settings: Kafka Streams' settings that differ from its defaults.
    """

    name: str
    title: str
    settings: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = True

    def prepare(self, report: Report) -> None:
        for jars in (STREAMS_JARS, BROKER_JARS):
            resolve_jars(jars, progress=report)
        _compiled_classes()

    def start(self, run: Run) -> ContestantProcess:
        settings = {"num.stream.threads": str(STREAM_THREADS), **self.settings}
        command = [
            str(find_java()), _JAVA_HEAP,
            "-cp", class_path((_compiled_classes(), *_java_libraries())),
            "KafkaStreamsBench",
            run.bootstrap_servers, run.application_id, run.input_topic, run.output_topic, str(run.directory / "state"),
            str(WINDOW_MS), str(GRACE_MS), str(run.through_repartition).lower(),
            *(f"{key}={value}" for key, value in settings.items()),
        ]  # fmt: skip
        return ContestantProcess(command, log=run.directory / "log", directory=run.directory)

    def progress(self, run: Run) -> ProgressSource:
        return GroupProgress(
            run.bootstrap_servers, group=run.application_id, topic=run.input_topic, partitions=run.partitions
        )


@dataclass(frozen=True)
class SparkContestant:
    """Spark's own windowed count with its Kafka sink, which is at-least-once."""

    name: str = "spark"
    title: str = "Spark's own count"
    exactly_once: bool = False

    def prepare(self, report: Report) -> None:
        resolve_jars(SPARK_KAFKA_JARS, progress=report)

    def start(self, run: Run) -> ContestantProcess:
        command = [
            sys.executable, "-m", "tests.bench.spark_native",
            "--bootstrap-servers", run.bootstrap_servers,
            "--input-topic", run.input_topic,
            "--output-topic", run.output_topic,
            "--partitions", str(run.partitions),
            "--checkpoint", str(self._checkpoint(run)),
            "--records-per-trigger", str(SPARK_RECORDS_PER_TRIGGER),
            "--jars", ",".join(map(str, resolve_jars(SPARK_KAFKA_JARS))),
        ]  # fmt: skip
        environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(run.directory / "spark")}
        return ContestantProcess(command, log=run.directory / "log", environment=environment, directory=REPOSITORY)

    def progress(self, run: Run) -> ProgressSource:
        return SparkProgress(self._checkpoint(run), topic=run.input_topic)

    @staticmethod
    def _checkpoint(run: Run) -> Path:
        return run.directory / "checkpoint"


KAFKA_STREAMS = KafkaStreamsContestant("kafka-streams", "Kafka Streams, defaults")
KAFKA_STREAMS_TUNED = KafkaStreamsContestant(
    "kafka-streams-tuned",
    "Kafka Streams, commit 5 s, cache 1 GB",
    {"commit.interval.ms": "5000", "statestore.cache.max.bytes": str(1 << 30)},
)
SPARK = SparkContestant()


def _java_libraries() -> tuple[Path, ...]:
    # The broker's set adds Jackson and the binding of the log.
    return (*resolve_jars(STREAMS_JARS), *resolve_jars(BROKER_JARS))


def _compiled_classes() -> Path:
    """Directory with the compiled Java contestant, compiled again when its source or a library has changed."""
    libraries = _java_libraries()
    fingerprint = hashlib.sha256(_JAVA_SOURCE.read_bytes())
    for jar in libraries:
        fingerprint.update(jar.name.encode())
    target = millrace_home() / "bench" / f"classes-{fingerprint.hexdigest()[:16]}"
    if target.is_dir():
        return target
    java = find_java().resolve()
    javac = java.with_name("javac")
    if not javac.is_file():
        raise PreflightError(
            f"{java} has no compiler beside it, and the benchmark compiles {_JAVA_SOURCE.name}.",
            remedy="install a JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="classes-", dir=target.parent))
    try:
        command = [str(javac), "-cp", class_path(libraries), "-d", str(scratch), str(_JAVA_SOURCE)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{_JAVA_SOURCE.name} does not compile: {result.stderr}")
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target
