"""Where the generator's decisions come from: hypothesis, which shrinks them, or a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """Decisions; what comes first, is smaller or is left out is the simpler one."""

    def choose(self, options: Sequence[T]) -> T:
        """One of ``options``."""

    def chance(self, percent: int) -> bool:
        """``True`` in ``percent`` of a hundred cases."""

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""


class DrawnChoices:
    """Decisions that hypothesis makes, and makes simpler when it shrinks.

    Args:
        draw: of ``hypothesis.strategies.composite``.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def choose(self, options: Sequence[T]) -> T:
        return options[self.between(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.between(0, 99) >= 100 - percent

    def between(self, low: int, high: int) -> int:
        return low if low == high else self._draw(st.integers(low, high))


class RandomChoices:
    """Decisions of a seed.

    Args:
        seed: the same one decides in the same way.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choose(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)
