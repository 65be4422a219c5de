"""The choice of the specification that counts: that of the launch, or that in ``config/apps``.

An edited file changes nothing that runs before it is deployed. So an operation says which of the two it is about, and
takes it from its :class:`millrace.install.application.Application`. Only what belongs to a launch itself (launchers,
the limits of a stop, the good specifications of a rollback) reads the launched one directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from millrace.errors import ConfigurationError
from millrace.install.home import ApplicationDirectory
from millrace.install.record import read_record
from millrace.install.spec import ApplicationSpec, SpecFile, load_named_spec, load_spec_file

_LISTED = 5


class Use(StrEnum):
    """The use of a specification."""

    RUNNING = "running"
    """What runs, and what it has left: stores, changelogs, committed offsets, savepoints, dead-letter records. It is
    that of the last launch, whether the driver still lives or not; without a launch here, that in ``config/apps``."""
    NEXT_START = "next start"
    """What supervision would launch: that in ``config/apps``, or that of the last launch where the file is missing,
    invalid, or was rolled back."""
    DEPLOYMENT = "deployment"
    """What an operator asks for: that in ``config/apps``, and nothing instead of it."""


@dataclass(frozen=True, kw_only=True)
class ChosenSpec:
    """A specification, and what is to be told with it.

    Args:
        file: the specification.
        problem: why it is not that in ``config/apps``, where that was wanted; else empty.
        note: one line, where that in ``config/apps`` and that of the last launch differ; else empty.
    """

    file: SpecFile
    problem: str = ""
    note: str = ""

    @property
    def spec(self) -> ApplicationSpec:
        """The checked specification."""
        return self.file.spec


@dataclass(frozen=True, kw_only=True)
class SeenSpecs:
    """The specifications of an application for a probe of it, for which nothing is raised.

    Args:
        following: that of the next start, none where there is none.
        running: that of what runs, none where there is none.
        problem: what is wrong with that in ``config/apps``: an invalid new specification must never bring down what
            runs.
    """

    following: ChosenSpec | None
    running: ChosenSpec | None
    problem: str


@dataclass(frozen=True, kw_only=True)
class Specifications:
    """Both specifications of an application, as they were read at one moment.

    Args:
        directory: the application's directory.
        path: its file in ``config/apps``.
        launched: that of the last launch, none where there was none or it cannot be read.
        launched_problem: why it cannot be read.
        desired: that in ``config/apps``, none where there is none or it is invalid.
        desired_problem: why.
    """

    directory: ApplicationDirectory
    path: Path
    launched: SpecFile | None
    launched_problem: ConfigurationError | None
    desired: SpecFile | None
    desired_problem: ConfigurationError | None

    @classmethod
    def read(cls, directory: ApplicationDirectory, path: Path) -> Specifications:
        """Reads both specifications; an error of one of them is kept for those who ask for it."""
        launched, launched_problem = None, None
        if directory.spec.exists():
            launched, launched_problem = _loaded(lambda: load_spec_file(directory.spec, name=directory.application))
        desired, desired_problem = _loaded(lambda: load_named_spec(path))
        return cls(
            directory=directory,
            path=path,
            launched=launched,
            launched_problem=launched_problem,
            desired=desired,
            desired_problem=desired_problem,
        )

    def chosen(self, use: Use, *, remedy: str = "") -> ChosenSpec:
        """Returns the specification that counts.

        Args:
            use: what it is wanted for.
            remedy: what to do where there is none; by default what the file's own error says.

        Raises:
            ConfigurationError: there is no valid one.
            OperationError: the record cannot be understood.
        """
        if use is Use.RUNNING and self.launched_problem is not None:
            raise ConfigurationError(
                f"What {self.directory.application} was launched with cannot be read: {self.launched_problem.message}",
                remedy=self.launched_problem.remedy or "deploy it again",
            ) from self.launched_problem
        if use is Use.DEPLOYMENT:
            found, problem = self.desired, ""
        elif use is Use.RUNNING:
            found, problem = self.launched or self.desired, ""
        else:
            problem = self._problem_of_next_start()
            found = self.launched if problem else self.desired
        if found is None:
            wrong = self.desired_problem
            message = wrong.message if wrong else problem
            raise ConfigurationError(
                message, remedy=remedy or (wrong.remedy if wrong else "deploy it again")
            ) from wrong
        return ChosenSpec(file=found, problem=problem, note=self._note(found))

    def seen(self) -> SeenSpecs:
        """Returns those of the next start and of what runs, as :meth:`chosen` gives them.

        Raises:
            OperationError: the record cannot be understood.
        """
        following, running = self._chosen_or_none(Use.NEXT_START), self._chosen_or_none(Use.RUNNING)
        problem = following.problem if following else str(self.desired_problem)
        return SeenSpecs(following=following, running=running, problem=problem)

    def _chosen_or_none(self, use: Use) -> ChosenSpec | None:
        try:
            return self.chosen(use)
        except ConfigurationError:
            return None

    def _problem_of_next_start(self) -> str:
        """Why that in ``config/apps`` is not what starts next; empty where it is."""
        if self.desired is None:
            return str(self.desired_problem)
        record = read_record(self.directory)
        if record is not None and record.rejected_hash == self.desired.hash:
            return f"{self.path} was rolled back; change it, or deploy it again"
        return ""

    def _note(self, found: SpecFile) -> str:
        launched, desired, application = self.launched, self.desired, self.directory.application
        if launched is None:
            return ""
        if desired is None:
            why = self.desired_problem.message if self.desired_problem else ""
            return f"this goes by what {application} was launched with, as its file does not count: {why}"
        if launched.hash == desired.hash:
            return ""
        keys = changed_keys(launched.raw, desired.raw)
        listed = ", ".join(keys[:_LISTED]) + (f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else "")
        goes_by = "what was launched" if found is launched else "the file"
        return f"{self.path} differs from what {application} was launched with ({listed}): this goes by {goes_by}"


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the dotted keys at which two documents differ, sorted; a list counts as one value."""
    return tuple(sorted(_changed(before, after, "")))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key in {*before, *after}:
        one, other = before.get(key), after.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _changed(one, other, f"{prefix}{key}.")
        elif one != other or (key in before) != (key in after):
            yield f"{prefix}{key}"


def _loaded(load: Callable[[], SpecFile]) -> tuple[SpecFile | None, ConfigurationError | None]:
    try:
        return load(), None
    except ConfigurationError as error:
        return None, error
