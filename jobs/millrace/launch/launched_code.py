"""What an application's code was when it was launched, and what of it is different now.

Beside the specification, ``run/<application>`` has ``code.json``, written by the launch, and ``nodes.json``, written by
the driver once it has built its topology. A deployment compares them with the code as it is, and takes a difference for
a change like one of the specification.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from millrace.errors import OperationError
from millrace.install.files import read_json, write_json
from millrace.install.home import ApplicationDirectory
from millrace.install.spec import ApplicationSpec
from millrace.launch.sources import LIBRARY, installed_packages, library_sources, sources_of
from millrace.topology.node_marks import node_marks
from millrace.topology.topology import FrozenTopology

_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "requirements.txt")
_LISTED = 10


class SourceFile(BaseModel):
    """A file, and what it held.

    Args:
        path: where it lies.
        sha256: of what it held.
        bytes: how long it was.
        changed_at_ns: when it was written last, nanoseconds since the epoch; while that and the length stay, it is not
            read again.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    sha256: str
    bytes: int
    changed_at_ns: int

    @classmethod
    def of(cls, path: Path) -> SourceFile:
        """A file as it is.

        Raises:
            OSError: it cannot be read.
        """
        state, content = path.stat(), path.read_bytes()
        return cls(
            path=str(path),
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=len(content),
            changed_at_ns=state.st_mtime_ns,
        )

    def is_touched(self) -> bool:
        """Whether the file holds something else now, or is gone."""
        try:
            state = os.stat(self.path)  # noqa: PTH116 - a checkout has hundreds of files, and each probe stats them
            if (state.st_size, state.st_mtime_ns) == (self.bytes, self.changed_at_ns):
                return False
            return SourceFile.of(Path(self.path)).sha256 != self.sha256
        except OSError:
            return True


class LaunchedCode(BaseModel):
    """The code of an application at one time.

    Args:
        sources: the module and what it imports, and Millrace itself where it is a checkout, by module.
        locks: lock files of the environment next to the module or above it, by name.
        packages: versions of the installed distributions, by name.
        python: version of the interpreter.
    """

    model_config = ConfigDict(frozen=True)

    sources: Mapping[str, SourceFile]
    locks: Mapping[str, SourceFile]
    packages: Mapping[str, str]
    python: str

    @property
    def fingerprint(self) -> str:
        """Equal for the same code, wherever it lies."""
        parts = (
            sorted((name, each.sha256) for name, each in self.sources.items()),
            sorted((name, each.sha256) for name, each in self.locks.items()),
            sorted(self.packages.items()),
            self.python,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def touched(self) -> tuple[str, ...]:
        """The files that hold something else now, in words; costs a check of each file, and reads few of them."""
        files = [each.path for each in (*self.sources.values(), *self.locks.values()) if each.is_touched()]
        return tuple(files)


def code_of(spec: ApplicationSpec) -> LaunchedCode:
    """The code of a specification as it is now. Nothing of it is imported.

    Raises:
        OperationError: a file of it cannot be read.
    """
    module = spec.module.partition(":")[0]
    first = [part for part in spec.launcher.environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    files = sources_of(module, first)
    try:
        return LaunchedCode(
            sources={name: SourceFile.of(path) for name, path in {**files, **library_sources()}.items()},
            locks={path.name: SourceFile.of(path) for path in _locks(files.get(module))},
            packages=installed_packages(sys.path),
            python=sys.version.split()[0],
        )
    except OSError as error:
        raise OperationError(
            f"The code of {spec.name} cannot be read: {error.filename}: {error.strerror}.",
            remedy="correct the file's permissions",
        ) from error


def _locks(module: Path | None) -> tuple[Path, ...]:
    """The lock files in the nearest directory above a module that has one."""
    for directory in module.parents if module is not None else ():
        if found := tuple(path for name in _LOCKS if (path := directory / name).is_file()):
            return found
    return ()


def changes_of_code(before: LaunchedCode, after: LaunchedCode) -> tuple[str, ...]:
    """What is different, a line each."""
    return (
        *_files("file", _users(before.sources), _users(after.sources)),
        *_library(before.sources, after.sources),
        *_files("lock file", before.locks, after.locks),
        *_limited(_packages(before.packages, after.packages)),
        *([f"Python {before.python} becomes {after.python}"] if before.python != after.python else []),
    )


def _users(sources: Mapping[str, SourceFile]) -> dict[str, SourceFile]:
    return {name: each for name, each in sources.items() if not name.startswith(f"{LIBRARY}/")}


def _files(kind: str, before: Mapping[str, SourceFile], after: Mapping[str, SourceFile]) -> tuple[str, ...]:
    return _limited((
        *(
            f"{kind} {after[name].path} changed"
            for name in sorted(before.keys() & after.keys())
            if before[name].sha256 != after[name].sha256
        ),
        *(f"{kind} {after[name].path} is new" for name in sorted(after.keys() - before.keys())),
        *(f"{kind} {before[name].path} is not used any more" for name in sorted(before.keys() - after.keys())),
    ))  # fmt: skip


def _library(before: Mapping[str, SourceFile], after: Mapping[str, SourceFile]) -> Iterator[str]:
    old, new = before.items() - _users(before).items(), after.items() - _users(after).items()
    one, other = {name: each.sha256 for name, each in old}, {name: each.sha256 for name, each in new}
    if names := sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)):
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield f"Millrace's own sources changed: {listed}"


def _packages(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return (
        *(
            f"package {name} {before[name]} becomes {after[name]}"
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ),
        *(f"package {name} {after[name]} is new" for name in sorted(after.keys() - before.keys())),
        *(f"package {name} {before[name]} is gone" for name in sorted(before.keys() - after.keys())),
    )


def _limited(lines: tuple[str, ...]) -> tuple[str, ...]:
    left = len(lines) - _LISTED
    return lines if left <= 0 else (*lines[:_LISTED], f"and {left} more of the kind")


def keep_code(directory: ApplicationDirectory, code: LaunchedCode) -> None:
    """Write down what is launched; which nodes it has, its driver says."""
    directory.nodes.unlink(missing_ok=True)
    write_json(directory.code, code.model_dump(mode="json"))


def kept_code(directory: ApplicationDirectory) -> LaunchedCode | None:
    """What was launched; none where that is not known: an earlier version of Millrace launched it.

    Raises:
        OperationError: it cannot be understood.
    """
    values = read_json(directory.code)
    if values is None:
        return None
    try:
        return LaunchedCode.model_validate(values)
    except ValidationError as error:
        raise OperationError(
            f"{directory.code} is not what a launch wrote: {error.errors()[0]['msg']}.",
            remedy="remove it, and deploy with --force",
        ) from error


def keep_nodes(path: Path, topology: FrozenTopology) -> None:
    """Write down what each node of a topology does; for the driver, which has built it."""
    write_json(path, node_marks(topology))
