"""Resolution of the jars of the broker and of Spark's Kafka connector, once, with the Ivy that ships in pyspark."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import structlog

from millrace.errors import PreflightError
from millrace.files import lock_file, unlock_file
from millrace.home import millrace_home
from millrace.kafka.java import find_java

KAFKA_VERSION = "4.4.0"
SPARK_KAFKA_VERSION = "4.2.0"
IVY_SETTINGS_VARIABLE = "MILLRACE_IVY_SETTINGS"
RESOLVE_LIMIT_S = 900
_MANIFEST = "jars.json"

Progress = Callable[[str], None]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class JarSet:
    """The jars that are resolved together.

    Args:
        name: directory of the set under ``<home>/jars``; it carries the version, so that an upgrade resolves again.
        coordinates: ``organisation:module:version`` of the roots; what they need at run time comes with them. With a
            classifier and a type, ``organisation:module:version:all@tar.gz``, that file alone.
        excluded_modules: ``organisation:module`` of dependencies that are left out.
    """

    name: str
    coordinates: tuple[str, ...]
    excluded_modules: tuple[str, ...] = ()


# The broker's own release brings this binding; its published module does not, and logs nothing without it.
_LOG_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5"

BROKER_JARS = JarSet(
    name=f"kafka-broker-{KAFKA_VERSION}",
    coordinates=(
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
        _LOG_BINDING,
    ),
    # The tools would bring all of Kafka Connect for one command about its plugins.
    excluded_modules=("org.apache.kafka:connect-runtime", "org.apache.kafka:connect-transforms"),
)
STREAMS_JARS = JarSet(
    name=f"kafka-streams-{KAFKA_VERSION}",
    coordinates=(
        f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}",
    ),
)
SPARK_KAFKA_JARS = JarSet(
    name=f"spark-kafka-{SPARK_KAFKA_VERSION}",
    coordinates=(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_KAFKA_VERSION}",),
    # pyspark has them already, in the versions that Spark was built with.
    excluded_modules=(
        "at.yawk.lz4:lz4-java",
        "com.google.code.findbugs:jsr305",
        "org.apache.hadoop:hadoop-client-api",
        "org.apache.hadoop:hadoop-client-runtime",
        "org.apache.spark:spark-tags_2.13",
        "org.scala-lang.modules:scala-parallel-collections_2.13",
        "org.scala-lang:scala-library",
        "org.slf4j:slf4j-api",
        "org.xerial.snappy:snappy-java",
    ),
)


def resolve_jars(jar_set: JarSet, *, home: Path | None = None, progress: Progress | None = None) -> tuple[Path, ...]:
    """Returns the jars of a set, downloaded if they are not there yet.

    A set is there completely or not at all: it is put together in a temporary directory, which is renamed at the
    end. Parallel calls, also of other processes, wait for the one that downloads. ``MILLRACE_IVY_SETTINGS`` may name
    an Ivy settings file, for networks that reach Maven's artifacts through a mirror of their own.

    Args:
        jar_set: which jars.
        home: the installation; default :func:`millrace.home.millrace_home`.
        progress: gets a line of text for each step and each downloaded jar; default: the log.

    Returns:
        Absolute paths, sorted.

    Raises:
        PreflightError: Java or pyspark is missing, or a jar could not be downloaded.
    """
    root = (home or millrace_home()) / "jars"
    target = root / jar_set.name
    jars = _complete(target)
    if jars is not None:
        return jars
    report = progress or _report_to_log
    root.mkdir(parents=True, exist_ok=True)
    with _exclusive(root / ".lock", report):
        jars = _complete(target)
        if jars is None:
            report(f"resolving {jar_set.name}: {', '.join(jar_set.coordinates)}")
            _resolve(jar_set, root, target, report)
            jars = _complete(target)
            assert jars is not None
            report(f"resolved {jar_set.name}: {len(jars)} jars")
    return jars


def class_path(jars: Iterable[Path]) -> str:
    """Returns Java's ``-cp`` argument for the jars, links followed: virtual machines compare class paths as text."""
    return os.pathsep.join(str(jar.resolve()) for jar in jars)


def _report_to_log(line: str) -> None:
    _log.info("jars", step=line)


def _complete(target: Path) -> tuple[Path, ...] | None:
    try:
        sizes: dict[str, int] = json.loads((target / _MANIFEST).read_text(encoding="utf-8"))
        if all((target / name).stat().st_size == size for name, size in sizes.items()):
            return tuple(target / name for name in sorted(sizes))
    except FileNotFoundError:
        return None
    return None


@contextmanager
def _exclusive(path: Path, report: Progress) -> Iterator[None]:
    descriptor = lock_file(path)
    if descriptor is None:
        report("waiting for another process that resolves jars")
        descriptor = lock_file(path, timeout_s=RESOLVE_LIMIT_S)
    if descriptor is None:
        raise PreflightError(
            f"Another process has held {path} for {RESOLVE_LIMIT_S} s.",
            remedy="end that process (`fuser` shows it) and try again",
        )
    try:
        yield
    finally:
        unlock_file(descriptor)


def _resolve(jar_set: JarSet, root: Path, target: Path, report: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{jar_set.name}-", dir=root) as name:
        scratch = Path(name)
        module = scratch / "ivy.xml"
        module.write_text(_ivy_module(jar_set), encoding="utf-8")
        jars = scratch / "jars"
        jars.mkdir()
        command = [
            str(find_java()), "-jar", str(_ivy_jar()),
            "-cache", str(root / ".ivy-cache"),
            "-ivy", str(module),
            "-confs", "default",
            "-types", "jar", "bundle", *_archive_types(jar_set),
            "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]",
        ]  # fmt: skip
        settings = os.environ.get(IVY_SETTINGS_VARIABLE)
        if settings:
            command += ["-settings", settings]
        _run_ivy(command, jar_set, report)
        sizes = {jar.name: jar.stat().st_size for jar in jars.iterdir()}
        (jars / _MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        jars.rename(target)


def _run_ivy(command: list[str], jar_set: JarSet, report: Progress) -> None:
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        limit = threading.Timer(RESOLVE_LIMIT_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if "[SUCCESSFUL ]" in line:
                    report(f"{jar_set.name}: {line.split('[SUCCESSFUL ]')[1].strip()}")
            status = process.wait()
        finally:
            limit.cancel()
            process.kill()
    # Ivy ends with status 0 after some failures, and says so only in its report.
    problems = [line for line in lines if line.startswith("::") and ("not found" in line or "FAILED" in line)]
    if status != 0 or problems or any("UNRESOLVED DEPENDENCIES" in line for line in lines):
        reported = "; ".join(dict.fromkeys(problems)) or " ".join(lines[-3:])
        raise PreflightError(
            f"Ivy could not resolve {jar_set.name} (status {status}): {reported}.",
            remedy="check the network, or name a settings file with your Maven mirror in " + IVY_SETTINGS_VARIABLE,
        )


def _ivy_module(jar_set: JarSet) -> str:
    dependencies = [_ivy_dependency(coordinate) for coordinate in jar_set.coordinates]
    for excluded in jar_set.excluded_modules:
        organisation, module = excluded.split(":")
        dependencies.append(f"<exclude org={quoteattr(organisation)} module={quoteattr(module)}/>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="millrace" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _ivy_dependency(coordinate: str) -> str:
    organisation, module, version, *archive = coordinate.split(":")
    dependency = f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(version)}"
    if not archive:
        return f'{dependency} conf="default->runtime,master"/>'
    classifier, _, kind = archive[0].partition("@")
    return (
        f'{dependency} conf="default->master" transitive="false"><artifact name={quoteattr(module)} '
        f"type={quoteattr(kind)} ext={quoteattr(kind)} m:classifier={quoteattr(classifier)}/></dependency>"
    )


def _archive_types(jar_set: JarSet) -> list[str]:
    return sorted({coordinate.partition("@")[2] for coordinate in jar_set.coordinates if "@" in coordinate})


def _ivy_jar() -> Path:
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise PreflightError("pyspark with its jars is not installed.", remedy="run `uv sync`")
    return found[-1]


def spark_home() -> Path:
    """Returns the directory of the installed pyspark, which contains a whole Spark.

    Raises:
        PreflightError: it is not installed.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise PreflightError("pyspark is not installed.", remedy="run `uv sync`")
    return Path(found.origin).parent
