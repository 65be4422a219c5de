"""Every environment variable of Millrace; a test holds that none of the code's is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scripts.references.dags import DAGS
from scripts.references.markdown import GENERATED, code, table

_INTRODUCTION = f"""\
# Environment variables

What belongs to an application is in its [specification](specification.md) and [configuration](configuration.md);
variables say where things are on a host, and what must not be written into files. A specification may refer to any
variable, as `${{NAME}}` or `${{NAME:-default}}`, and set some for its driver (`launcher.environment`).

{GENERATED}
"""
_SCHEDULE = re.compile(r'\bschedule\("(\w+)", "([^"]+)"')


@dataclass(frozen=True)
class Variable:
    """An environment variable.

    Args:
        name: its name.
        default: what holds without it, in words or as code.
        meaning: what it is for, and who reads it; Markdown.
    """

    name: str
    default: str
    meaning: str


def _schedules() -> Iterator[Variable]:
    """Those that the DAG files ask for."""
    for file in sorted(DAGS.glob("*.py")):
        for what, default in _SCHEDULE.findall(file.read_text()):
            yield Variable(
                f"MILLRACE_SCHEDULE_{what.upper()}",
                code(default),
                f"Cron expression, UTC, at which `{file.stem}` runs, or `none`. Read by Airflow's DAG processor.",
            )


GROUPS: Mapping[str, tuple[Variable, ...]] = {
    "Where things are": (
        Variable(
            "MILLRACE_HOME",
            "`.millrace` of the project",
            "Directory of the installation: jars, the embedded broker, what was launched, savepoints. The project is "
            "the checkout; where Millrace is installed from a wheel, the working directory or the nearest above it "
            "that has `config/apps`. All who look after the same applications need the same: command line, drivers, "
            "Airflow.",
        ),
        Variable(
            "MILLRACE_CONFIG_DIR",
            "`config/apps` of the project",
            "Directory of the specifications.",
        ),
        Variable(
            "MILLRACE_BOOTSTRAP_SERVERS",
            "the embedded broker, if it runs",
            "Brokers, `host:port` with commas in between, for commands without `--bootstrap-servers`; specifications "
            "refer to it.",
        ),
        Variable(
            "MILLRACE_STATE_DIR",
            "`state.dir` of the configuration",
            "Directory of the stores on this host; read by the executors of a Spark worker, in whose environment it is "
            "set ([launchers](launchers.md)).",
        ),
        Variable(
            "MILLRACE_IVY_SETTINGS",
            "Maven Central",
            "Settings file of Ivy that says where jars are fetched from, such as a mirror.",
        ),
    ),
    "Logins and tokens": (
        Variable(
            "MILLRACE_COMMAND_CONFIG",
            "no login",
            "Properties file with the login to the broker for `millrace topics`, and for a reset without a "
            "specification.",
        ),
        Variable(
            "MILLRACE_CONTROL_TOKEN",
            "a random one",
            "Bearer token of a driver's control plane, where `control.token.file` is not set "
            "([security](security.md)).",
        ),
        Variable(
            "MILLRACE_QUERY_TOKEN",
            "a random one",
            "Bearer token of `millrace query-server`, where `--token-file` is not given.",
        ),
    ),
    "Logs and readers": (
        Variable(
            "MILLRACE_LOG_FORMAT",
            "`console` on a terminal, else `json`",
            "`console`: lines for people; `json`: one object a line.",
        ),
        Variable(
            "MILLRACE_RECORD_READER",
            "`librdkafka` where it can be used",
            "What reads records in worker processes: `librdkafka`, through its C interface into columns; `consumer`, "
            "through `confluent_kafka.Consumer`, slower ([operations](operations.md)).",
        ),
    ),
    "Airflow": (
        Variable(
            "MILLRACE_PUSHGATEWAY",
            "a file for Prometheus",
            "URL of the Pushgateway that `millrace_metrics_export` pushes to. Read where tasks run.",
        ),
        *_schedules(),
    ),
    "The specification of the demo": (
        Variable("MILLRACE_LAUNCHER", "`local`", "`launcher.kind` in `config/apps/fraud-detection.yaml`."),
        Variable("MILLRACE_SPARK_MASTER", "unset", "`launcher.master` there, such as `spark://host:7077`."),
    ),
    "Set by Millrace, not to be set": (
        Variable(
            "MILLRACE_RUN_DIRECTORY",
            "",
            "`run/<application>`, in a driver's environment: its process is known by it.",
        ),
        Variable(
            "MILLRACE_OPERATION",
            "",
            "Id of the multi-step operation that starts a driver, which the operation's lock lets start therefore.",
        ),
        Variable(
            "MILLRACE_EARLY_DAEMON",
            "",
            "Name of the socket by which Spark's Python daemon finds the one that the driver started before Spark.",
        ),
    ),
    "For tests": (
        Variable(
            "MILLRACE_CRASH_POINTS",
            "no point is armed",
            "Directory in which a file of a crash point's name has a process end there as `kill -9` would. Never in "
            "production.",
        ),
        Variable(
            "MILLRACE_DRILLS_RECORD",
            "no record",
            "File that the drills of every failure write what they saw to; `make drills` makes the "
            "[failure matrix](failure-matrix.md) of it.",
        ),
        Variable(
            "MILLRACE_SCREENSHOTS",
            "the test's own directory",
            "Directory that gets pictures of the pages which the browser's tests have seen.",
        ),
    ),
}


def page() -> str:
    """The reference page, Markdown."""
    sections = (
        f"## {title}\n\n"
        + table(
            ("variable", "without it", "meaning"),
            ((code(each.name), each.default, each.meaning) for each in variables),
        )
        for title, variables in GROUPS.items()
    )
    return _INTRODUCTION + "\n" + "\n\n".join(sections) + "\n"
