"""Which specification counts: that which an application was launched with, or that in ``config/apps``.

An edited file changes nothing that runs before it is deployed. So an operation says which of the two it is about, and
takes it from :func:`specification_for`. Only what belongs to a launch itself (launchers, the limits of a stop, the good
specifications of a rollback) reads the launched one directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from millrace.errors import ConfigurationError, MillraceError
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.install.spec import ApplicationSpec, SpecFile, load_named_spec, load_spec_file

_LISTED = 5


class Use(StrEnum):
    """What a specification is wanted for."""

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


def specification_for(use: Use, home: Home, application: str, *, remedy: str = "") -> ChosenSpec:
    """The specification of an application that counts.

    Args:
        use: what it is wanted for.
        home: the installation.
        application: its name.
        remedy: what to do where there is none; by default what the file's own error says.

    Raises:
        ConfigurationError: there is no valid one.
        OperationError: the record cannot be understood.
    """
    return _chosen(use, home, application, _both(home, application), remedy)


def specifications_seen(home: Home, application: str) -> tuple[ChosenSpec | None, ChosenSpec | None, str]:
    """Those of the next start and of what runs, as :func:`specification_for` gives them, for a look at an application.

    Returns:
        Both, none where there is none, and what is wrong with that in ``config/apps``: an invalid new specification
        must never bring down what runs, so that nothing is raised for it.

    Raises:
        OperationError: the record cannot be understood.
    """
    both = _both(home, application)
    seen: list[ChosenSpec | None] = []
    for use in (Use.NEXT_START, Use.RUNNING):
        try:
            seen.append(_chosen(use, home, application, both, ""))
        except ConfigurationError:
            seen.append(None)
    following, running = seen
    return following, running, following.problem if following else str(both.desired_problem)


def _chosen(use: Use, home: Home, application: str, both: _Both, remedy: str) -> ChosenSpec:
    if use is Use.RUNNING and both.launched_problem is not None:
        raise ConfigurationError(
            f"What {application} was launched with cannot be read: {both.launched_problem.message}",
            remedy=both.launched_problem.remedy or "deploy it again",
        ) from both.launched_problem
    if use is Use.DEPLOYMENT:
        found, problem = both.desired, ""
    elif use is Use.RUNNING:
        found, problem = both.launched or both.desired, ""
    else:
        problem = _problem_of_next_start(home, application, both)
        found = both.launched if problem else both.desired
    if found is None:
        wrong = both.desired_problem
        message = wrong.message if wrong else problem
        raise ConfigurationError(message, remedy=remedy or (wrong.remedy if wrong else "deploy it again")) from wrong
    return ChosenSpec(file=found, problem=problem, note=_note(home, application, found, both))


def difference_of_specifications(use: Use, home: Home, application: str) -> str:
    """One line that says how that in ``config/apps`` and that of the last launch differ, and by which of them an
    operation goes; empty where they do not, or where there is none.

    For what is printed beside a result; an operation that cannot be done without one says why itself.
    """
    try:
        return specification_for(use, home, application).note
    except MillraceError:
        return ""


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The dotted keys at which two documents differ, sorted; a list counts as one value."""
    return tuple(sorted(_changed(before, after, "")))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key in {*before, *after}:
        one, other = before.get(key), after.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _changed(one, other, f"{prefix}{key}.")
        elif one != other or (key in before) != (key in after):
            yield f"{prefix}{key}"


@dataclass(frozen=True, kw_only=True)
class _Both:
    launched: SpecFile | None
    launched_problem: ConfigurationError | None
    desired: SpecFile | None
    desired_problem: ConfigurationError | None


def _both(home: Home, application: str) -> _Both:
    path = home.application(application).spec
    launched, launched_problem = None, None
    if path.exists():
        launched, launched_problem = _loaded(lambda: load_spec_file(path, name=application))
    desired, desired_problem = _loaded(lambda: load_named_spec(home.spec_path(application)))
    return _Both(launched=launched, launched_problem=launched_problem, desired=desired, desired_problem=desired_problem)


def _loaded(load: Callable[[], SpecFile]) -> tuple[SpecFile | None, ConfigurationError | None]:
    try:
        return load(), None
    except ConfigurationError as error:
        return None, error


def _problem_of_next_start(home: Home, application: str, both: _Both) -> str:
    """Why that in ``config/apps`` is not what starts next; empty where it is."""
    if both.desired is None:
        return str(both.desired_problem)
    record = read_record(home.application(application))
    if record is not None and record.rejected_hash == both.desired.hash:
        return f"{home.spec_path(application)} was rolled back; change it, or deploy it again"
    return ""


def _note(home: Home, application: str, found: SpecFile, both: _Both) -> str:
    launched, desired = both.launched, both.desired
    if launched is None:
        return ""
    if desired is None:
        why = both.desired_problem.message if both.desired_problem else ""
        return f"this goes by what {application} was launched with, as its file does not count: {why}"
    if launched.hash == desired.hash:
        return ""
    keys = changed_keys(launched.raw, desired.raw)
    listed = ", ".join(keys[:_LISTED]) + (f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else "")
    goes_by = "what was launched" if found is launched else "the file"
    return (
        f"{home.spec_path(application)} differs from what {application} was launched with ({listed}): "
        f"this goes by {goes_by}"
    )
