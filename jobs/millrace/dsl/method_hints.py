"""Hints for methods that an object of the DSL does not have: they name the one that was meant."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from millrace.errors import MissingMethodError
from millrace.topology.arguments import node_of

_GROUPED = "group it first: group_by_key() or group_by()"
_AGGREGATED = "make a table of it first: count(), reduce() or aggregate()"
_CHANGES = "take its changes first: to_stream()"

_WAYS = {
    ("KStream", "KGroupedStream"): _GROUPED,
    ("KStream", "TimeWindowedKStream"): _GROUPED,
    ("KStream", "KTable"): "make a table of it first: to_table()",
    ("KTable", "KStream"): _CHANGES,
    ("KTable", "KGroupedStream"): "take its changes first, to_stream(), and group them; or group its rows: group_by()",
    ("KTable", "KGroupedTable"): "group its rows first: group_by()",
    ("KGroupedStream", "TimeWindowedKStream"): "give it windows first: windowed_by()",
    ("CogroupedKStream", "KGroupedStream"): "add streams with cogroup(), and end with aggregate()",
}
"""How one comes from an object of the first class to one of the second, which has the method."""

_FROM_GROUPS = {"KTable": _AGGREGATED, "KStream": f"{_AGGREGATED}, and then take its changes: to_stream()"}

_BY_NAME = {
    "through": "write with to() and read the topic with StreamsBuilder.stream(), or use repartition()",
    "transform": "use process(), which took its place in Kafka Streams as well",
    "flat_transform": "use process(), whose processor forwards as many records as it likes",
    "transform_values": "use process_values(), which took its place in Kafka Streams as well",
    "flat_transform_values": "use process_values(), whose processor forwards as many records as it likes",
    "branch": "use split().branch(...), and end with default_branch() or no_default_branch()",
    "windowed_by": _GROUPED,
    "group_by_key": "take its changes first: to_stream().group_by_key()",
}
"""Methods that Kafka Streams had or that are elsewhere, and what does their work."""

_GLOBAL = (
    "join a stream with it: stream.join(global_table, key_selector, joiner); to process its records, read the topic"
)
_BRANCHES = "end the split with default_branch() or no_default_branch(), and take a branch out of the dictionary"


class MethodHints:
    """Base of the DSL's objects: a method that they do not have is a ``MissingMethodError`` with a remedy."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Only called where there is no attribute of that name.

            Raises:
                AttributeError: always; for a public name a ``MissingMethodError``.
            """
            if name.startswith("_"):
                # What copy, pickle and consoles look for.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            node = node_of(self)
            behind = "" if node is None else f" behind {node}"
            raise MissingMethodError(
                f"{type(self).__name__}{behind} has no method {name}().", remedy=_remedy(type(self), name)
            )


def _remedy(owner: type, name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if snake != name and hasattr(owner, snake):
        return f"it is called {snake} here"
    called = "" if snake == name else f" (called {snake} here)"
    if owner.__name__ == "GlobalKTable":
        return _GLOBAL
    if owner.__name__ == "BranchedKStream":
        return _BRANCHES
    if snake in _BY_NAME:
        return _BY_NAME[snake] + called
    way = _way(owner, snake)
    if way is not None:
        return way + called
    public = sorted(each for each in dir(owner) if not each.startswith("_"))
    nearest = difflib.get_close_matches(snake, public, n=1, cutoff=0.6)
    return f"use {nearest[0]}()" if nearest else f"it has {', '.join(public)}"


def _way(owner: type, method: str) -> str | None:
    """What to call first, where another object of the DSL has the method."""
    from millrace import dsl

    for other in ("KStream", "KTable", "KGroupedStream", "KGroupedTable", "TimeWindowedKStream"):
        if not hasattr(getattr(dsl, other), method):
            continue
        groups = _FROM_GROUPS if owner.__name__ not in ("KStream", "KTable", "StreamsBuilder") else {}
        way = _WAYS.get((owner.__name__, other)) or groups.get(other)
        if owner.__name__ == "StreamsBuilder" and other == "KStream":
            way = "read a topic first: stream() or table()"
        if way is not None:
            return way
    return None


class EndOfStream:
    """The result of ``to()`` and ``foreach()``. Nothing goes on from there: a call on it is a ``MissingMethodError``.

    Args:
        ended_by: the call, for the message.
        node: the node that the stream is made by.
    """

    def __init__(self, ended_by: str, node: str) -> None:
        self._ended_by = ended_by
        self._node = node

    def __repr__(self) -> str:
        return f"<end of the stream behind {self._node}: {self._ended_by}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Only called where there is no attribute of that name.

            Raises:
                AttributeError: always; for a public name a ``MissingMethodError``.
            """
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise MissingMethodError(
                f"{name}() is called on what {self._ended_by} returned, but that ends the stream behind {self._node}.",
                remedy=f"keep the stream in a variable and call both on it: stream.{self._ended_by} and "
                f"stream.{name}(...)",
            )
