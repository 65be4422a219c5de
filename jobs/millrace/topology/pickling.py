"""The check that a topology can be sent to the workers: if not, it names the function and the variable at fault.

Workers get a topology as Spark sends functions: those of a module that can be imported go by their name, lambdas and
functions inside functions with all that they refer to.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from millrace.callables import callable_name
from millrace.errors import TopologyError
from millrace.topology.parts import SubTopology
from millrace.topology.topology import FrozenTopology

_DEEPEST = 8


def check_picklable(topology: FrozenTopology | SubTopology) -> None:
    """Refuses a topology that no worker could get.

    Raises:
        TopologyError: something that the user passed cannot be pickled; named are the node or store, the function with
            its line, and the variable.
    """
    if _problem(topology) is None:
        return
    parts = (topology,) if isinstance(topology, SubTopology) else topology.parts
    for part in parts:
        stores = part.stores if isinstance(part, SubTopology) else (part.store,)
        for item, kind in (*((node, "node") for node in part.nodes), *((store, "store") for store in stores)):
            problem = _problem(item)
            if problem is not None:
                trail = " -> ".join(_trail(item))
                raise TopologyError(
                    f"What was passed to {kind} {item.name} cannot be sent to the workers: {trail}: "
                    f"{type(problem).__name__}: {problem}.",
                    remedy="let the function make it where it runs: open connections, files and locks in init() of a "
                    "processor, or in a function of your module that keeps it in a global; pass plain data",
                ) from problem
    raise TopologyError(
        "The topology cannot be sent to the workers: its parts can be pickled, together they cannot.",
        remedy="look for an object that refers to the whole topology or builder",
    )


def _problem(item: Any) -> Exception | None:
    """Why something cannot be pickled as Spark does it."""
    try:
        # Enough where all functions go by their names, and much faster.
        pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except Exception:
        from pyspark import cloudpickle

        try:
            cloudpickle.dumps(item)
        except Exception as error:
            return error
    return None


def _trail(item: Any) -> list[str]:
    """From something that cannot be pickled to the innermost part of it that cannot."""
    trail: list[str] = []
    seen = {id(item)}
    while len(trail) < _DEEPEST:
        for name, part in _parts(item):
            if id(part) not in seen and _problem(part) is not None:
                seen.add(id(part))
                trail.append(f"{name} {_called(part)}")
                item = part
                break
        else:
            break
    return trail or [_called(item)]


def _parts(item: Any) -> Iterator[tuple[str, Any]]:
    """What an object is pickled with, under names for a message."""
    if isinstance(item, functools.partial):
        yield "function", item.func
        yield from ((f"argument {index}", each) for index, each in enumerate(item.args))
        yield from ((f"argument {name}", each) for name, each in item.keywords.items())
    elif inspect.ismethod(item):
        yield "object", item.__self__
    elif inspect.isfunction(item):
        yield from _of_function(item)
    elif isinstance(item, Mapping):
        yield from ((f"entry {key!r}", each) for key, each in item.items())
    elif isinstance(item, list | tuple | set | frozenset):
        yield from ((f"item {index}", each) for index, each in enumerate(item))
    elif is_dataclass(item) and not isinstance(item, type):
        yield from ((field.name, getattr(item, field.name)) for field in fields(item))
    elif isinstance(item, type):
        yield from ((f"attribute {name}", each) for name, each in vars(item).items() if not name.startswith("__"))
        yield from ((f"method {name}", each) for name, each in vars(item).items() if inspect.isfunction(each))
    elif hasattr(item, "__dict__"):
        yield from ((f"attribute {name}", each) for name, each in vars(item).items())
        yield "class", type(item)


def _of_function(function: Any) -> Iterator[tuple[str, Any]]:
    found = inspect.getclosurevars(function)
    yield from ((f"closure variable {name}", each) for name, each in found.nonlocals.items())
    yield from ((f"global variable {name}", each) for name, each in found.globals.items())
    yield from ((f"default of parameter {index}", each) for index, each in enumerate(function.__defaults__ or ()))
    yield from ((f"default of {name}", each) for name, each in (function.__kwdefaults__ or {}).items())


def _called(item: Any) -> str:
    if inspect.isroutine(item) or isinstance(item, functools.partial):
        return callable_name(item)
    if isinstance(item, type):
        return f"(the class {item.__qualname__})"
    return f"({type(item).__module__}.{type(item).__qualname__})"
