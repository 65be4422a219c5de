"""What is different between what an application was launched with and what a deployment would launch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import orjson

from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.files import read_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import driver_environment
from millrace.install.spec import SpecFile
from millrace.install.which_spec import Use, changed_keys
from millrace.launch.launched_code import changes_of_code, code_of, kept_code
from millrace.topology.node_marks import changed_marks

_LISTED = 20
_BUILD_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Differences, a line each.

    Args:
        specification: its keys.
        code: files, packages and the interpreter.
        nodes: what the topology does otherwise, as far as that is known.
        code_is_known: whether it is known which code was launched.
    """

    specification: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    code_is_known: bool = True

    def lines(self) -> tuple[str, ...]:
        """All of them, for people."""
        return tuple(f"differs: {line}" for line in (*self.specification, *self.nodes, *self.code))


def changes_since_launch(application: Application, spec: SpecFile) -> Changes:
    """Compare a specification and its code as it is now with what was launched.

    Args:
        application: which.
        spec: what would be launched.

    Returns:
        Nothing different where nothing was launched here.

    Raises:
        MillraceError: what was launched, or the code, cannot be read.
    """
    directory = application.directory
    if not directory.spec.exists():
        return Changes()
    launched = application.launched.file
    keys = changed_keys(launched.raw, spec.raw)
    kept = kept_code(directory)
    code = changes_of_code(kept, code_of(spec.spec)) if kept is not None else ()
    return Changes(
        specification=tuple(f"{key} of the specification" for key in keys[:_LISTED]),
        code=code,
        nodes=_changes_of_nodes(directory, spec) if code or "module" in keys else (),
        code_is_known=kept is not None,
    )


def _changes_of_nodes(directory: ApplicationDirectory, spec: SpecFile) -> tuple[str, ...]:
    before = read_json(directory.nodes)
    if before is None:
        return ("which nodes differ is not known: no driver has told what it built",)
    asked = {"module": spec.spec.module, "settings": spec.spec.streams_mapping()}
    try:
        told = subprocess.run(
            [sys.executable, "-m", "millrace.dsl.marks"],
            input=orjson.dumps(asked),
            capture_output=True,
            env={**os.environ, **driver_environment(spec.spec, directory)},
            cwd=directory.path,
            timeout=_BUILD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return (f"which nodes differ is not known: the topology was not built within {_BUILD_LIMIT_S:g} s",)
    if told.returncode:
        end = (told.stderr.decode(errors="replace").strip().splitlines() or ["nothing was said"])[-1]
        return (f"which nodes differ is not known: building the topology failed: {end}",)
    answer = orjson.loads(told.stdout)
    if "problem" in answer:
        return (f"which nodes differ is not known: {answer['problem']}",)
    found = changed_marks(before, answer["marks"])
    if not found:
        return ("no node: each does what it did",)
    more = (f"and {len(found) - _LISTED} more nodes and stores",) if len(found) > _LISTED else ()
    return (*found[:_LISTED], *more)


def code_note(directory: ApplicationDirectory) -> str:
    """One line where files of what was launched hold something else now; empty where they do not.

    Costs a check of each file. What only a deployment compares, packages for example, is not looked at.
    """
    try:
        kept = kept_code(directory)
    except MillraceError as error:
        return error.message
    touched = kept.touched() if kept is not None else ()
    if not touched:
        return ""
    listed = ", ".join(touched[:3]) + (f" and {len(touched) - 3} more" if len(touched) > 3 else "")
    return (
        f"the code of {directory.application} has changed since its launch ({listed}); only a deployment goes to it: "
        f"`millrace deploy {directory.application}`"
    )


def difference_note(use: Use, application: Application) -> str:
    """One line that says how what was launched differs from what is there now, and by which an operation goes.

    Args:
        use: by which specification the operation goes.
        application: which.
    """
    notes = (application.difference(use), code_note(application.directory))
    return "; ".join(filter(None, notes))
