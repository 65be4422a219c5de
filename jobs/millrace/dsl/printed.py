"""``Printed``: where and how ``KStream.print`` writes records. Source: ``org.apache.kafka.streams.kstream.Printed``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millrace.dsl.callables import check_callable
from millrace.errors import TopologyError
from millrace.topology.naming import check_name


@dataclass(frozen=True, kw_only=True)
class Printed:
    """The options of ``KStream.print``, which writes a line ``[label]: key, value`` for each record.

    Args:
        path: a file that lines are appended to, by every worker that runs a task; ``None`` writes to the standard
            output of the worker, which is in the log of its executor.
        label: what stands in brackets; ``None`` takes the name of the node that is printed.
        mapper: ``(key, value) -> text`` behind the label.
        name: name of the node.
    """

    path: Path | None = None
    label: str | None = None
    mapper: Callable[[Any, Any], str] | None = None
    name: str | None = None

    @classmethod
    def to_sys_out(cls) -> Printed:
        """Writes to the standard output."""
        return cls()

    @classmethod
    def to_file(cls, path: str | Path) -> Printed:
        """Writes to the end of a file, whose directory must exist on each host that runs tasks.

        Raises:
            TopologyError: the path is empty.
        """
        if not str(path) or str(path) == ".":
            raise TopologyError("print() is given an empty path.", remedy="name a file")
        return cls(path=Path(path))

    def with_label(self, label: str) -> Printed:
        """Sets the label."""
        return replace(self, label=label)

    def with_key_value_mapper(self, mapper: Callable[[Any, Any], str]) -> Printed:
        """Writes the text that ``mapper(key, value)`` gives.

        Raises:
            TopologyError: it cannot be called so.
        """
        check_callable(mapper, 2, what="mapper of print()", takes="key, value")
        return replace(self, mapper=mapper)

    def with_name(self, name: str) -> Printed:
        """Names the node."""
        return replace(self, name=check_name(name, what="node"))


@dataclass(frozen=True)
class PrintRecord:
    """Writes the line of one record.

    Args:
        label: what stands in brackets.
        path: the file, ``None`` for the standard output.
        mapper: ``(key, value) -> text``.
    """

    label: str
    path: Path | None = None
    mapper: Callable[[Any, Any], str] | None = None

    def __call__(self, key: Any, value: Any) -> None:
        """Writes the record."""
        text = f"{key}, {value}" if self.mapper is None else self.mapper(key, value)
        line = f"[{self.label}]: {text}\n"
        if self.path is None:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        # Workers append to one file: a line is one write.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
