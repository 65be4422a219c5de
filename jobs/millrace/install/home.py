"""The files of an installation: its directory, and one directory per application."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from millrace.driver.ending import ENDED_FILE
from millrace.home import SPECIFICATIONS, millrace_home, project_directory

SPECS_VARIABLE = "MILLRACE_CONFIG_DIR"


@dataclass(frozen=True)
class ApplicationDirectory:
    """The files of one application under ``run/<application>``.

    Args:
        path: the directory; its name is the application's.
    """

    path: Path

    @property
    def application(self) -> str:
        """Name of the application."""
        return self.path.name

    @property
    def spec(self) -> Path:
        """The specification that the driver was started with last."""
        return self.path / "spec.yaml"

    @property
    def last_good_spec(self) -> Path:
        """The newest specification under which the application was healthy."""
        return self.path / "spec.last-good.yaml"

    @property
    def previous_good_spec(self) -> Path:
        """The one that was good before the newest good one."""
        return self.path / "spec.previous-good.yaml"

    @property
    def code(self) -> Path:
        """The code at the last launch."""
        return self.path / "code.json"

    @property
    def nodes(self) -> Path:
        """Written by the driver: a mark for what each node of its topology does."""
        return self.path / "nodes.json"

    @property
    def record(self) -> Path:
        """The record of what was launched, by whom, and whether it should run."""
        return self.path / "record.json"

    @property
    def control(self) -> Path:
        """Written by the driver: its process and the address of its control plane."""
        return self.path / "control.json"

    @property
    def log(self) -> Path:
        """Standard output and error of the driver."""
        return self.path / "driver.log"

    @property
    def journal(self) -> Path:
        """The journal: one line for each action of an operation."""
        return self.path / "journal.jsonl"

    @property
    def supervision(self) -> Path:
        """The last observation and what was decided on it, written before it is acted on."""
        return self.path / "supervision.json"

    @property
    def ended(self) -> Path:
        """The end of the last driver, written by itself."""
        return self.path / ENDED_FILE

    @property
    def drills(self) -> Path:
        """The recovery drills: one line for each."""
        return self.path / "drills.jsonl"

    @property
    def operation_lock(self) -> Path:
        """Held by the operation that changes the application."""
        return self.path / "operation.lock"

    @property
    def operations(self) -> Path:
        """Journals of multi-step operations, one file each."""
        return self.path / "operations"

    @property
    def operations_lock(self) -> Path:
        """Held by the process that executes a multi-step operation."""
        return self.path / "operations.lock"

    @property
    def savepoints(self) -> Path:
        """The savepoints at the last probe of their repository."""
        return self.path / "savepoints.json"

    @property
    def driver_lock(self) -> Path:
        """Held by the driver's process for as long as it lives."""
        return self.path / "driver.lock"


@dataclass(frozen=True)
class Home:
    """An installation and its directories.

    Args:
        root: ``MILLRACE_HOME``.
        specs: directory of the applications' specifications.
    """

    root: Path
    specs: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Returns the installation in ``MILLRACE_HOME``, see :func:`millrace.home.millrace_home`."""
        return cls.at(millrace_home())

    @classmethod
    def at(cls, root: Path, *, specs: Path | None = None) -> Home:
        """Returns the installation in ``root``.

        Args:
            root: the directory of the installation.
            specs: where the specifications are; none takes ``MILLRACE_CONFIG_DIR`` or, without that, ``config/apps``
                of the project, see :func:`millrace.home.project_directory`.
        """
        configured = os.environ.get(SPECS_VARIABLE)
        if specs is None:
            specs = Path(configured) if configured else project_directory() / SPECIFICATIONS
        return cls(root=root.absolute(), specs=specs.expanduser().absolute())

    def application(self, name: str) -> ApplicationDirectory:
        """Returns the directory of the application ``name``; it need not exist yet."""
        return ApplicationDirectory(self.root / "run" / name)

    def spec_path(self, name: str) -> Path:
        """Returns the file with the desired state of the application ``name``."""
        return self.specs / f"{name}.yaml"

    def scrape_target(self, name: str) -> Path:
        """Returns the file in which Prometheus finds the address of the application ``name`` while its driver runs."""
        return self.root / "prometheus" / "targets" / f"{name}.json"

    def deployed(self) -> tuple[str, ...]:
        """Names of the applications that were deployed here, sorted."""
        return tuple(sorted(record.parent.name for record in (self.root / "run").glob("*/record.json")))
