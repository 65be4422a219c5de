"""The source files that a module is made of: its own and those that it imports, without importing any of them.

Only what lies outside of the interpreter's own libraries and of ``site-packages`` counts: what is installed has a
version. What a module imports by a name that is computed is not seen.
"""

from __future__ import annotations

import ast
import importlib
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import millrace

LIBRARY = "millrace"
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_NOT_IN_DRIVERS = {"install", "launch", "operations", "supervise", "insight", "cli", "testing"}
"""Parts of Millrace that no driver runs."""


def sources_of(module: str, search_path: Sequence[str] = ()) -> dict[str, Path]:
    """The files of a module and of what it imports, by the names of the modules; empty where it cannot be found.

    Args:
        module: its full name.
        search_path: directories that come before those of this interpreter.
    """
    importlib.invalidate_caches()
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for each, spec in _with_parents(name, search_path):
            if each in found or each.partition(".")[0] == LIBRARY or (path := _own_file(spec)) is None:
                continue
            found[each] = path
            waiting += _imports(each, spec, path)
    return found


def library_sources() -> dict[str, Path]:
    """The files of Millrace that a driver runs, where it lies outside of ``site-packages``: a checkout."""
    root = Path(millrace.__file__).resolve().parent
    if _is_installed(root):
        return {}
    return {
        f"{LIBRARY}/{path.relative_to(root)}": path
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in _NOT_IN_DRIVERS
    }


def installed_packages(search_path: Sequence[str]) -> dict[str, str]:
    """The installed distributions of an environment by name, with their versions.

    Args:
        search_path: ``sys.path`` of its interpreter.
    """
    found: dict[str, str] = {}
    for entry in search_path:
        try:
            paths = [path for path in Path(entry or ".").iterdir() if path.suffix in {".dist-info", ".egg-info"}]
        except OSError:
            # Zip files, and directories that are not there, are in every search path.
            continue
        for path in paths:
            package, _, version = path.stem.partition("-")
            found.setdefault(package.lower().replace("_", "-"), version)
    return found


def _with_parents(name: str, search_path: Sequence[str]) -> Iterator[tuple[str, ModuleSpec]]:
    """A module after the packages that it is in, as far as they are found; importing it runs them all."""
    parts = name.split(".")
    within: Sequence[str] | None = None
    for count in range(1, len(parts) + 1):
        each = ".".join(parts[:count])
        spec = _find(each, search_path if count == 1 else (), within)
        if spec is None:
            return
        yield each, spec
        if spec.submodule_search_locations is None:
            return
        within = list(spec.submodule_search_locations)


def _find(name: str, first: Sequence[str], within: Sequence[str] | None) -> ModuleSpec | None:
    if first and (spec := PathFinder.find_spec(name, list(first))) is not None:
        return spec
    for finder in sys.meta_path:
        # Finders of old libraries have no find_spec; the import system passes over them as well.
        if (find := getattr(finder, "find_spec", None)) is None:
            continue
        try:
            spec = find(name, within)
        except KeyError:
            # A package without a file asks its parent, which nothing has imported here, where it is.
            spec = _without_file(name, within or ())
        if spec is not None:
            return spec
    return None


def _without_file(name: str, within: Sequence[str]) -> ModuleSpec | None:
    """A package inside of another one that is only directories."""
    spec = ModuleSpec(name, None, is_package=True)
    last = name.rpartition(".")[2]
    spec.submodule_search_locations = [str(path) for entry in within if (path := Path(entry, last)).is_dir()]
    return spec if spec.submodule_search_locations else None


def _own_file(spec: ModuleSpec) -> Path | None:
    if not spec.has_location or spec.origin is None:
        return None
    path = Path(spec.origin).resolve()
    return None if _is_installed(path) or not path.is_file() else path


def _is_installed(path: Path) -> bool:
    return not _INSTALLED.isdisjoint(path.parts) or any(path.is_relative_to(each) for each in _STANDARD)


def _imports(name: str, spec: ModuleSpec, path: Path) -> Iterator[str]:
    """The names that a module's source imports, wherever in it; a name that is no module is not found later."""
    try:
        tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
    except (SyntaxError, ValueError):
        # Whoever imports it says so, with the line; here it counts as a file without imports.
        return
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    for node in _running_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, above), *filter(None, [node.module])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            children = list(node.orelse)
        waiting += children
