"""``process``, ``process_values`` and ``transform_values`` with stores: what they have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from millrace.callables import callable_name, deferred_kind
from millrace.dsl.callables import check_callable
from millrace.dsl.graph import GraphBuilder
from millrace.errors import TopologyError
from millrace.topology.store_builders import StoreBuilder


def is_supplier(function: Any) -> bool:
    """Returns whether it is a class, or can be called without arguments but not with two."""
    if isinstance(function, type):
        return True
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return False
    return _takes(signature, 0) and not _takes(signature, 2)


def _takes(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return False
    return True


def check_supplier(supplier: Any, *, what: str, method: str = "process") -> None:
    """Refuses what does not give a new object at each call, with a method that does the work.

    Args:
        supplier: what the user passed.
        what: its role, for the message.
        method: the method that is called for each record.

    Raises:
        TopologyError: it is not callable without arguments, gives the same object twice, or one without the method, or
            whose methods are async or generators.
    """
    check_callable(supplier, 0, what=what, takes="")
    first, second = supplier(), supplier()
    made = f"What the {what} {callable_name(supplier)} makes, {type(first).__name__},"
    if not callable(getattr(first, method, None)):
        raise TopologyError(
            f"{made} has no method {method}().", remedy=f"return a new object with {method}(), init() and close()"
        )
    for name in ("init", method, "close"):
        kind = deferred_kind(getattr(first, name, None))
        if kind is not None:
            raise TopologyError(
                f"{made} has a method {name}() that is {kind}, so that its body would not run.",
                remedy="make it a plain method; a processor forwards its results with context.forward()",
            )
    if first is second:
        raise TopologyError(
            f"The {what} {supplier!r} gives the same object at each call.",
            remedy="return a new one each time: every task needs its own",
        )


def stores_of(supplier: Callable[[], Any]) -> tuple[StoreBuilder, ...]:
    """Returns the stores that a supplier brings along (KIP-401).

    Raises:
        TopologyError: ``stores()`` cannot be called on the supplier, or gives something else.
    """
    provide = getattr(supplier, "stores", None)
    if provide is None:
        return ()
    check_callable(provide, 0, what="method stores() of a supplier", takes="")
    stores = tuple(provide() or ())
    for store in stores:
        if not isinstance(store, StoreBuilder):
            raise TopologyError(
                f"stores() of {supplier!r} gives {type(store).__name__}.", remedy="return StoreBuilders (see Stores)"
            )
    return stores


def connected_stores(
    graph: GraphBuilder, supplier: Callable[[], Any], state_store_names: tuple[str, ...]
) -> tuple[str, ...]:
    """Names of the stores of a processor: those that were named, and those that its supplier brings, which are added.

    Raises:
        TopologyError: a name is no text, or another store has the name of one that the supplier brings.
    """
    for name in state_store_names:
        if not isinstance(name, str):
            raise TopologyError(f"{name!r} is no name of a store.", remedy="pass the store's name")
    brought = stores_of(supplier)
    for builder in brought:
        graph.add_store(builder.spec)
    return tuple(dict.fromkeys((*state_store_names, *(builder.name for builder in brought))))
