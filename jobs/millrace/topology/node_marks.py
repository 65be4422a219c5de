"""A mark for each node and store of a topology: another one where what it does has changed.

Unlike :func:`millrace.topology.summary.summarize`, which is about state, marks see the functions: their code, defaults
and what they close over. They show which nodes a change of code touches; nothing is decided by them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # DAG files import what compares marks, and need no topology for it.
    from millrace.topology.topology import FrozenTopology

_DEEPEST = 16
_STANDARD = sysconfig.get_path("stdlib")
_Plain = Callable[[Any], Any]


def node_marks(topology: FrozenTopology) -> dict[str, str]:
    """Returns, by ``node NAME`` and ``store NAME``, a short hash that is equal in every process for the same code."""
    marks: dict[str, str] = {}
    for part in topology.sub_topologies:
        marks |= {f"node {node.name}": _mark(node) for node in part.nodes}
        marks |= {f"store {store.name}": _mark(store) for store in part.stores}
    marks |= {f"global store {each.store.name}": _mark(each) for each in topology.global_stores}
    return marks


def changed_marks(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the differences, a line each: what does something else, what is new, what is gone."""
    kept = sorted(before.keys() & after.keys())
    return (
        *(f"{name} does something else" for name in kept if before[name] != after[name]),
        *(f"{name} is new" for name in sorted(after.keys() - before.keys())),
        *(f"{name} is gone" for name in sorted(before.keys() - after.keys())),
    )


def _mark(value: Any) -> str:
    return hashlib.sha256(repr(_plain(value, ())).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _plain(value: Any, within: tuple[int, ...]) -> Any:
    """The value as nested tuples of text whose ``repr`` has no address and no order of a set.

    Args:
        value: anything.
        within: identities of the objects that it was reached through.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if id(value) in within or len(within) > _DEEPEST:
        return "..."
    return next(make(value, _Inner((*within, id(value)))) for kinds, make in _FORMS if isinstance(value, kinds))


@dataclasses.dataclass(frozen=True)
class _Inner:
    """Makes what is within a value plain."""

    within: tuple[int, ...]

    def __call__(self, value: Any) -> Any:
        return _plain(value, self.within)


def _of_mapping(value: Mapping[Any, Any], plain: _Plain) -> Any:
    return tuple(sorted((repr(plain(key)), plain(each)) for key, each in value.items()))


def _of_code(value: types.CodeType, plain: _Plain) -> Any:
    return (value.co_code.hex(), plain(value.co_consts), plain(value.co_names), plain(value.co_varnames))


def _of_function(value: types.FunctionType, plain: _Plain) -> Any:
    cells = [_content(cell) for cell in value.__closure__ or ()]
    used = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
    own = {name: each for name, each in used.items() if _is_users_value(each)}
    return tuple(map(plain, (value.__code__, value.__defaults__, value.__kwdefaults__, cells, own)))


def _names(code: types.CodeType) -> set[str]:
    """The globals and attributes that code names, that of functions within it included."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_users_value(value: Any) -> bool:
    """Whether a global is the application's: a value, a function or a class of its own."""
    if isinstance(value, types.FunctionType | type):
        return _is_users(value)
    return value is None or isinstance(value, bool | int | float | str | bytes | tuple | frozenset)


def _of_class(value: type, plain: _Plain) -> Any:
    methods = {name: each for name, each in vars(value).items() if isinstance(each, types.FunctionType)}
    return (f"{value.__module__}.{value.__qualname__}", plain(methods) if _is_users(value) else ())


def _of_object(value: Any, plain: _Plain) -> Any:
    kind = plain(type(value))
    if dataclasses.is_dataclass(value):
        return (kind, plain({each.name: getattr(value, each.name) for each in dataclasses.fields(value)}))
    if hasattr(value, "__dict__"):
        return (kind, plain(vars(value)))
    # Expressions of Arrow have a text; what has an address in its own is identified by its kind only.
    text = str(value)
    return (kind, "" if " at 0x" in text else text)


_FORMS: tuple[tuple[Any, Callable[[Any, _Plain], Any]], ...] = (
    (Enum, lambda value, _: f"{type(value).__qualname__}.{value.name}"),
    ((list, tuple), lambda value, plain: tuple(map(plain, value))),
    ((set, frozenset), lambda value, plain: tuple(sorted(repr(plain(each)) for each in value))),
    (Mapping, _of_mapping),
    (types.CodeType, _of_code),
    (types.FunctionType, _of_function),
    (types.MethodType, lambda value, plain: (plain(value.__func__), plain(value.__self__))),
    (functools.partial, lambda value, plain: (plain(value.func), plain(value.args), plain(value.keywords))),
    ((types.BuiltinFunctionType, types.ModuleType), lambda value, _: value.__name__),
    (type, _of_class),
    (object, _of_object),
)


def _is_users(value: type | types.FunctionType) -> bool:
    """Whether something is of the application: what is of Millrace or of libraries has a version."""
    module = sys.modules.get(value.__module__)
    path = getattr(module, "__file__", None) or ""
    package = value.__module__.partition(".")[0]
    return package not in {"millrace", "builtins"} and "site-packages" not in path and not path.startswith(_STANDARD)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
