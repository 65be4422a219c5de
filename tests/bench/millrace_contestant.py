"""Millrace as a contestant: the process that a launcher starts, with a spec of its own for each run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from confluent_kafka.admin import AdminClient

from tests.bench.contestants import REPOSITORY, SPARK, Report, Run
from tests.bench.meter import GroupProgress, ProgressSource
from tests.bench.processes import ContestantProcess
from tests.bench.workloads import INPUT_VARIABLE, OUTPUT_VARIABLE


@dataclass(frozen=True)
class MillraceContestant:
    """Millrace with ``exactly_once_v2`` on ``local[2]``.

    Args:
        settings: settings that differ from the defaults.
    """

    name: str = "millrace"
    title: str = "Millrace"
    exactly_once: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, report: Report) -> None:
        SPARK.prepare(report)

    def start(self, run: Run) -> ContestantProcess:
        spec = {
            "name": run.application_id,
            "module": "tests.bench.millrace_application:build",
            "state": "running",
            "launcher": "local",
            "config": {
                "application.id": run.application_id,
                "bootstrap.servers": run.bootstrap_servers,
                "state.dir": str(run.directory / "state"),
                "master": "local[2,4]",
                **self.settings,
            },
        }
        file = run.directory / "spec.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        environment = {
            INPUT_VARIABLE: run.input_topic,
            OUTPUT_VARIABLE: run.output_topic,
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [sys.executable, "-m", "millrace", "run", str(file), "--run-directory", str(run.directory / "run")]
        return ContestantProcess(command, log=run.directory / "log", environment=environment, directory=REPOSITORY)

    def progress(self, run: Run, admin: AdminClient) -> ProgressSource:
        return GroupProgress(admin, group=run.application_id, topic=run.input_topic, partitions=run.partitions)


MILLRACE = MillraceContestant()
