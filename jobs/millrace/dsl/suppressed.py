"""``Suppressed`` and its buffers: which changes of a table wait, until when, and how many of them (KIP-328)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments
from millrace.topology.naming import check_name
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class BufferConfig:
    """The bounds of a suppression buffer, and what happens when it is full. Made by the factories of this class.

    Args:
        record_limit: keys that may wait; ``None``: any number.
        byte_limit: bytes that may wait, counted as Kafka Streams counts them: key, values before and after the change,
            headers, topic and 28 bytes for each change; ``None``: any number.
        logging: whether a changelog topic backs the buffer.
        changelog_settings: topic settings of the changelog that override its defaults.
    """

    record_limit: int | None = None
    byte_limit: int | None = None
    logging: bool = True
    changelog_settings: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def max_records(record_limit: int) -> EagerBufferConfig:
        """Buffers at most ``record_limit`` keys; when there are more, the first ones are emitted early.

        Raises:
            TopologyError: the limit is negative.
        """
        return EagerBufferConfig().with_max_records(record_limit)

    @staticmethod
    def max_bytes(byte_limit: int) -> EagerBufferConfig:
        """Buffers at most ``byte_limit`` bytes; when there are more, the first changes are emitted early.

        Raises:
            TopologyError: the limit is negative.
        """
        return EagerBufferConfig().with_max_bytes(byte_limit)

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """Buffers without a bound."""
        return StrictBufferConfig()

    def with_max_records(self, record_limit: int) -> Self:
        """Limits the buffer to ``record_limit`` keys.

        Raises:
            TopologyError: the limit is negative.
        """
        return replace(self, record_limit=_limit(record_limit, "keys"))

    def with_max_bytes(self, byte_limit: int) -> Self:
        """Limits the buffer to ``byte_limit`` bytes.

        Raises:
            TopologyError: the limit is negative.
        """
        return replace(self, byte_limit=_limit(byte_limit, "bytes"))

    def with_no_bound(self) -> StrictBufferConfig:
        """Removes the buffer's bounds."""
        return StrictBufferConfig(logging=self.logging, changelog_settings=self.changelog_settings)

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Fails the task when the buffer is full."""
        return StrictBufferConfig(**self._fields())

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Emits the first changes early when the buffer is full."""
        return EagerBufferConfig(**self._fields())

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> Self:
        """Backs the buffer by a changelog topic, whose settings ``config`` overrides."""
        return replace(self, logging=True, changelog_settings=tuple((config or {}).items()))

    def with_logging_disabled(self) -> Self:
        """Keeps no changelog topic: buffered changes are lost with the state directory."""
        return replace(self, logging=False, changelog_settings=())

    def _fields(self) -> dict[str, Any]:
        return {
            "record_limit": self.record_limit,
            "byte_limit": self.byte_limit,
            "logging": self.logging,
            "changelog_settings": self.changelog_settings,
        }


class StrictBufferConfig(BufferConfig):
    """A buffer that never lets a change go early: if it is full, the record that filled it fails."""


class EagerBufferConfig(BufferConfig):
    """A buffer that lets its first changes go early when it is full."""


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Suppressed:
    """The options of suppressing changes of a table. Made by :meth:`until_window_closes` and :meth:`until_time_limit`.

    Args:
        buffer: how much may wait.
        time_limit_ms: how long a key's changes wait, milliseconds of stream time; ``None``: until their window closes.
        name: name of the node; the store's is made of it.
    """

    buffer: BufferConfig
    time_limit_ms: int | None = None
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        """Emits only the final result of each window, once stream time is at its end and grace or beyond.

        Stream time is that of the changes that reach the node: without newer ones nothing goes, whatever the clock
        says. The windows' grace is that of the aggregation above; sessions wait their inactivity gap as well.
        Tombstones never go.

        Raises:
            TopologyError: the buffer may let changes go early, so that results would not be final.
        """
        if not isinstance(buffer, StrictBufferConfig):
            raise TopologyError(
                "Results are final only if none goes early, and this buffer may let some go.",
                remedy="use BufferConfig.unbounded(), or shut_down_when_full()",
            )
        return cls(buffer=buffer)

    @classmethod
    def until_time_limit(cls, time_to_wait_for_more_events: Duration, buffer: BufferConfig) -> Suppressed:
        """Emits the last change of each key within a time, counted from its first one.

        Args:
            time_to_wait_for_more_events: milliseconds of stream time, or a timedelta, 0 or more.
            buffer: how much may wait; the first changes go early from an eager one that is full.

        Raises:
            TopologyError: the time is negative.
        """
        limit_ms = to_milliseconds(time_to_wait_for_more_events)
        if limit_ms < 0:
            raise TopologyError(f"Changes cannot wait for {limit_ms} ms.", remedy="give a time of 0 or more")
        return cls(buffer=buffer, time_limit_ms=limit_ms)

    def with_name(self, name: str) -> Suppressed:
        """Names the node; its store is called ``<name>-store``."""
        return replace(self, name=check_name(name, what="node"))


def _limit(limit: int, what: str) -> int:
    if limit < 0:
        raise TopologyError(f"A buffer cannot be limited to {limit} {what}.", remedy="give a limit of 0 or more")
    return limit
