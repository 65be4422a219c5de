"""Aggregators: built-in ones that stay in Arrow, and ones made of the user's callables.

A built-in aggregator reads the record's value, or one field of it, and its result has a fixed type, so that a task can
group a whole batch in columns. Their behaviour is in ``millrace.task``; here is only what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments


@checks_arguments
@dataclass(frozen=True)
class BuiltInAggregator:
    """An aggregation that is computed in columns.

    Args:
        field: the field of the (struct) value to read; ``None`` reads the value itself.
    """

    kind: ClassVar[str]
    field: str | None = None


@dataclass(frozen=True)
class CountAggregator(BuiltInAggregator):
    """Counts the records; with ``field``, those in which it is not null. Result: 64-bit integer."""

    kind: ClassVar[str] = "count"


@dataclass(frozen=True)
class SumAggregator(BuiltInAggregator):
    """Sum, 0 of nothing. Result: 64-bit integer for integers (wraps around as in Java), double for floating point."""

    kind: ClassVar[str] = "sum"


@dataclass(frozen=True)
class MinAggregator(BuiltInAggregator):
    """Smallest value, of the field's own type."""

    kind: ClassVar[str] = "min"


@dataclass(frozen=True)
class MaxAggregator(BuiltInAggregator):
    """Largest value, of the field's own type."""

    kind: ClassVar[str] = "max"


@dataclass(frozen=True)
class AvgAggregator(BuiltInAggregator):
    """Arithmetic mean as a double, null of nothing; the store holds sum and count."""

    kind: ClassVar[str] = "avg"


@dataclass(frozen=True)
class FirstAggregator(BuiltInAggregator):
    """The value that was processed first."""

    kind: ClassVar[str] = "first"


@dataclass(frozen=True)
class LastAggregator(BuiltInAggregator):
    """The value that was processed last."""

    kind: ClassVar[str] = "last"


@dataclass(frozen=True)
class CollectAggregator(BuiltInAggregator):
    """Collects all values in a list, in processing order."""

    kind: ClassVar[str] = "collect"


@checks_arguments
@dataclass(frozen=True)
class StructAggregator:
    """Several built-in aggregations of the same records at once; the result is a struct of theirs.

    Args:
        fields: pairs of result field name and aggregation, in the order of the result.
    """

    fields: tuple[tuple[str, BuiltInAggregator], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.fields]
        if not names or len(set(names)) != len(names):
            raise TopologyError(f"A struct aggregation needs distinct field names, not {names}.")


@dataclass(frozen=True)
class ReduceAggregator:
    """Reduces by ``reducer(aggregate, value) -> aggregate``; the first value of a key is its first aggregate."""

    reducer: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class CallableAggregator:
    """Aggregates by ``initializer() -> aggregate`` and ``adder(key, value, aggregate) -> aggregate``."""

    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]


Aggregator = BuiltInAggregator | StructAggregator | ReduceAggregator | CallableAggregator


@dataclass(frozen=True)
class TableReduceAggregator:
    """Reduces by ``adder(aggregate, value) -> aggregate`` and its inverse ``subtractor``.

    A first value is the first aggregate.
    """

    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class TableCallableAggregator:
    """Aggregates by ``initializer() -> aggregate``, ``adder(key, value, aggregate) -> aggregate`` and its inverse."""

    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]


TableAggregator = BuiltInAggregator | StructAggregator | TableReduceAggregator | TableCallableAggregator
"""An aggregation of a table's rows; built-in ones only where they have a subtraction."""


@checks_arguments
def count(field: str | None = None) -> CountAggregator:
    """Returns a :class:`CountAggregator`."""
    return CountAggregator(field)


@checks_arguments
def sum_(field: str | None = None) -> SumAggregator:
    """Returns a :class:`SumAggregator`."""
    return SumAggregator(field)


@checks_arguments
def min_(field: str | None = None) -> MinAggregator:
    """Returns a :class:`MinAggregator`."""
    return MinAggregator(field)


@checks_arguments
def max_(field: str | None = None) -> MaxAggregator:
    """Returns a :class:`MaxAggregator`."""
    return MaxAggregator(field)


@checks_arguments
def avg(field: str | None = None) -> AvgAggregator:
    """Returns an :class:`AvgAggregator`."""
    return AvgAggregator(field)


@checks_arguments
def first(field: str | None = None) -> FirstAggregator:
    """Returns a :class:`FirstAggregator`."""
    return FirstAggregator(field)


@checks_arguments
def last(field: str | None = None) -> LastAggregator:
    """Returns a :class:`LastAggregator`."""
    return LastAggregator(field)


@checks_arguments
def collect(field: str | None = None) -> CollectAggregator:
    """Returns a :class:`CollectAggregator`."""
    return CollectAggregator(field)


@checks_arguments
def struct(**fields: BuiltInAggregator) -> StructAggregator:
    """Returns a :class:`StructAggregator`: ``struct(total=sum_("amount"), payments=count())``."""
    return StructAggregator(tuple(fields.items()))
