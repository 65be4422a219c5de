"""A scenario in the making: its steps so far, what later steps can stand on, and the operators to choose from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from tests.parity.generating.choices import Choices

T = TypeVar("T")


class Kind(Enum):
    """What a step leaves behind for others to stand on."""

    STREAM = "a stream with text keys"
    TABLE = "a table with text keys"
    WINDOWED_STREAM = "a stream with windowed keys"
    WINDOWED_TABLE = "a table with windowed keys"
    GLOBAL_TABLE = "a global table, which only joins use"


@dataclass(frozen=True)
class Operator:
    """How an operator takes part: made by :func:`operator`.

    Args:
        on: kinds of what it is applied to.
        add: appends its steps to a draft; the second argument is the name of what it is applied to.
        weight: how often it is chosen, compared with others.
        when: whether it can be applied to a draft now.
    """

    on: tuple[Kind, ...]
    add: Callable[[Draft, str], None]
    weight: int
    when: Callable[[Draft], bool]


OPERATORS: list[Operator] = []
"""Every operator that can be chosen. Modules of this package fill it when they are imported."""


def operator(
    *on: Kind, weight: int = 2, when: Callable[[Draft], bool] = lambda draft: True
) -> Callable[[Callable[[Draft, str], None]], Callable[[Draft, str], None]]:
    """Lets a function ``(draft, on)`` that appends an operator take part in generated scenarios.

    Args:
        on: kinds of what it is applied to.
        weight: how often it is chosen, compared with others.
        when: whether it can be applied to a draft now.
    """

    def register(add: Callable[[Draft, str], None]) -> Callable[[Draft, str], None]:
        OPERATORS.append(Operator(on, add, weight, when))
        return add

    return register


@dataclass
class Draft:
    """The scenario so far.

    Args:
        choices: who decides.

    Attributes:
        steps: of the topology.
        topics: input topics.
        settings: sentences of the scenario.
        durations: milliseconds that matter to some operator: times of records gather around them.
        keys: of the records of a topic, where they are not the usual ones.
    """

    choices: Choices
    steps: list[dict[str, Any]] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    durations: set[int] = field(default_factory=set)
    keys: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    _kinds: dict[str, Kind] = field(default_factory=dict)
    _count: int = 0

    def choose(self, options: Collection[T]) -> T:
        """One of ``options``, the first of which is the simplest."""
        return self.choices.choose(list(options))

    def chance(self, percent: int) -> bool:
        """``True`` in ``percent`` of a hundred cases; ``False`` is the simpler case."""
        return self.choices.chance(percent)

    def between(self, low: int, high: int) -> int:
        """A number, both ends included; the lower is the simpler."""
        return self.choices.between(low, high)

    def new_name(self, prefix: str) -> str:
        """A name of a store, topic or step that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def step(self, name: str) -> dict[str, Any]:
        """The step that leaves behind ``name``; empty for a branch."""
        return next((step for step in self.steps if step.get("as") == name), {})

    def duration(self, options: Sequence[int]) -> int:
        """One of ``options``, in milliseconds; records will come around it."""
        chosen = self.choose(options)
        self.durations.add(abs(chosen))
        return chosen

    def of(self, *kinds: Kind) -> list[str]:
        """Names of everything of these kinds."""
        return [name for name, kind in self._kinds.items() if kind in kinds]

    def kind(self, name: str) -> Kind:
        """The kind of what ``name`` stands for."""
        return self._kinds[name]

    def made(self, name: str, kind: Kind) -> None:
        """Notes that a step leaves behind ``name`` beside what it is called."""
        self._kinds[name] = kind

    def add(self, op: str, kind: Kind | None, /, **options: Any) -> str:
        """Appends a step and gives its name.

        Args:
            op: the operator.
            kind: what it leaves behind; ``None`` if nothing but its successor may use it.
            options: of the step; ``{"with": ...}`` has to be passed as ``**{"with": ...}``.
        """
        name = self.new_name("s")
        self.steps.append({"op": op, "as": name, **options})
        if kind is not None:
            self._kinds[name] = kind
        return name
