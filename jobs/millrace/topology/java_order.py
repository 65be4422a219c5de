"""The orders in which Java's collections give their elements; ``describe()`` of Kafka Streams shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_LEAST_BUCKETS = 16


def string_hash(text: str) -> int:
    """Returns ``String.hashCode`` of Java, as an unsigned 32-bit number."""
    data = text.encode("utf-16-be")
    value = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def hash_order(texts: Iterable[str], *, sized: bool = False) -> list[str]:
    """Returns distinct ``texts`` in the order of a ``HashMap`` or ``HashSet`` into which they were put one by one.

    Args:
        texts: in the order of insertion.
        sized: whether the set was made from a collection and so had its final size from the start.
    """
    distinct = list(dict.fromkeys(texts))
    buckets = _LEAST_BUCKETS
    if sized:
        while buckets < int(len(distinct) / 0.75) + 1:
            buckets *= 2
    else:
        while len(distinct) > buckets * 3 // 4:
            buckets *= 2
    # The sort is stable: within a bucket the order of insertion stays, also when the table grows.
    return sorted(distinct, key=lambda text: (string_hash(text) ^ string_hash(text) >> 16) & (buckets - 1))


@dataclass
class _Entry(Generic[T]):
    item: T
    red: bool = True
    left: _Entry[T] | None = None
    right: _Entry[T] | None = None
    parent: _Entry[T] | None = None


class TreeOrder(Generic[T]):
    """A ``TreeSet``: a red-black tree. With an order that changes while items are added, its shape decides.

    Args:
        compare: negative, zero or positive, as in Java; an item that compares equal to a present one is not added.
    """

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, item: T) -> None:
        """Adds ``item`` where it belongs by the order as it is now."""
        parent: _Entry[T] | None = None
        current = self._root
        order = 0
        while current is not None:
            parent = current
            order = self._compare(item, current.item)
            if order == 0:
                return
            current = current.left if order < 0 else current.right
        entry = _Entry(item, parent=parent)
        if parent is None:
            self._root = entry
        elif order < 0:
            parent.left = entry
        else:
            parent.right = entry
        self._rebalance(entry)

    def __iter__(self) -> Iterator[T]:
        stack: list[_Entry[T]] = []
        entry = self._root
        while stack or entry is not None:
            while entry is not None:
                stack.append(entry)
                entry = entry.left
            entry = stack.pop()
            yield entry.item
            entry = entry.right

    def _rebalance(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red and (grand := parent.parent) is not None:
            parent_is_left = grand.left is parent
            uncle = grand.right if parent_is_left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                entry = grand
                continue
            if (parent.left is entry) is not parent_is_left:
                self._rotate(parent, to_left=parent_is_left)
                entry, parent = parent, entry
            parent.red = False
            grand.red = True
            self._rotate(grand, to_left=not parent_is_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        """Puts the child of ``entry`` on the other side in its place."""
        child = entry.right if to_left else entry.left
        if child is None:
            return
        inner = child.left if to_left else child.right
        if to_left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        child.parent = entry.parent
        if entry.parent is None:
            self._root = child
        elif entry.parent.left is entry:
            entry.parent.left = child
        else:
            entry.parent.right = child
        entry.parent = child
