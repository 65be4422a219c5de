"""Millrace as a contestant: the process that a launcher starts, with a spec of its own for each run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.bench.contestants import REPOSITORY, SPARK, Report, Run
from tests.bench.meter import GroupProgress, ProgressSource
from tests.bench.processes import ContestantProcess
from tests.bench.workloads import INPUT_VARIABLE, OUTPUT_VARIABLE, REPARTITION_VARIABLE

CORES = 2
"""As Kafka Streams' stream threads and Spark's ``local[2]``."""


@dataclass(frozen=True)
class MillraceContestant:
    """Millrace with ``exactly_once_v2`` on ``local[2]``.

    Args:
        settings: settings that differ from the defaults.
        checkout: the checkout that it runs from, with its environment in ``.venv``.
    """

    name: str = "millrace"
    title: str = "Millrace"
    exactly_once: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    checkout: Path = REPOSITORY

    def prepare(self, report: Report) -> None:
        SPARK.prepare(report)

    def start(self, run: Run) -> ContestantProcess:
        file = self.write_spec(run)
        python = sys.executable if self.checkout == REPOSITORY else str(self.checkout / ".venv/bin/python")
        environment = {
            INPUT_VARIABLE: run.input_topic,
            OUTPUT_VARIABLE: run.output_topic,
            REPARTITION_VARIABLE: str(run.through_repartition),
            "PYTHONPATH": str(self.checkout),
            "PYSPARK_PYTHON": python,
        }
        command = [python, "-m", "millrace", "run", str(file), "--run-directory", str(run.directory / "run")]
        return ContestantProcess(command, log=run.directory / "log", environment=environment, directory=self.checkout)

    def write_spec(self, run: Run) -> Path:
        """Write the application's spec into the run's directory."""
        spec = {
            "name": run.application_id,
            "module": "tests.bench.millrace_application:build",
            "state": "running",
            "launcher": {"kind": "local", "parallelism": CORES},
            "config": {
                "bootstrap.servers": run.bootstrap_servers,
                "state.dir": str(run.directory / "state"),
                **self.settings,
            },
        }
        file = run.directory / "spec.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        return file

    def progress(self, run: Run) -> ProgressSource:
        return GroupProgress(
            run.bootstrap_servers, group=run.application_id, topic=run.input_topic, partitions=run.partitions
        )


MILLRACE = MillraceContestant()

MILLRACE_MICRO_BATCHES = MillraceContestant(
    name="millrace-micro-batches",
    title="Millrace (micro-batches)",
    settings={"processing.engine": "micro-batches"},
)


def millrace_before(checkout: Path) -> MillraceContestant:
    """Returns Millrace as it is in another checkout, which is measured in one run with this one.

    Args:
        checkout: of this repository at an earlier commit, prepared by ``make setup``.

    Raises:
        subprocess.CalledProcessError: it is no checkout.
    """
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return MillraceContestant(name="millrace-before", title=f"Millrace at {commit}", checkout=checkout.resolve())
