"""The settings of clients that read columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import ConfigurationError
from millrace.kafka.clients import base_settings

KIBIBYTE = 1024
_MOST_QUEUED_KB = 1024 * KIBIBYTE
"""Arrow's binary columns have offsets of 32 bits, and one poll may take what is queued and what comes meanwhile."""

QUEUED = "queued.max.messages.kbytes"

_DEFAULTS: Mapping[str, Any] = {
    "fetch.message.max.bytes": 10 * KIBIBYTE * KIBIBYTE,
    "queued.min.messages": 100_000,
    # Once so much is queued, the client asks for no more until this time is over: a second by default, in which a
    # restoration applies all that is there and then idles (170,000 records/s instead of 900,000).
    "fetch.queue.backoff.ms": 5,
}
"""The settings that the user's settings may override."""

_REQUIRED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # A reset would leave a hole: an offset that is gone has to be an error.
    "auto.offset.reset": "error",
    # Markers and aborted records are never delivered; the end-of-partition event shows how far they reach.
    "enable.partition.eof": True,
}
"""The settings on which correct reading depends."""


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """The settings of a reader: how it connects and how much it buffers.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        group: id of a group; it is never joined, and nothing is committed in its name.
        settings: client settings of the user (``consumer.*``), without their prefix. Those that make reading right are
            not open to change.
        queued_kbytes: how much the client buffers ahead over all topic-partitions, KiB; a setting of the user wins.
        fetch_wait_ms: longest time that the broker keeps a request for which it has no records, milliseconds. Records
            come at once whatever it is; the position behind a marker, and a topic-partition that is assigned, wait as
            long. Each such request costs processor time on both sides.
    """

    bootstrap_servers: str
    group: str
    settings: Mapping[str, str] = field(default_factory=dict)
    queued_kbytes: int = 64 * KIBIBYTE
    fetch_wait_ms: int = 100

    def of_client(self) -> dict[str, Any]:
        """Returns the settings of the client, under librdkafka's names.

        Raises:
            ConfigurationError: a file that they name cannot be read, or more is buffered than a poll can give.
        """
        chosen = {
            **base_settings(self.bootstrap_servers),
            **_DEFAULTS,
            QUEUED: self.queued_kbytes,
            "fetch.wait.max.ms": self.fetch_wait_ms,
            **base_settings(self.bootstrap_servers, self.settings),
            "group.id": self.group,
            **_REQUIRED,
        }
        queued = str(chosen[QUEUED])
        if not queued.isdigit() or not 0 < int(queued) <= _MOST_QUEUED_KB:
            raise ConfigurationError(
                f"consumer.{QUEUED} is {queued}, which is not between 1 and {_MOST_QUEUED_KB}.",
                remedy=f"set it to what one poll may take into memory, for example {64 * KIBIBYTE}",
            )
        return chosen


def refused_settings(reason: str) -> ConfigurationError:
    """Returns the error for a client that could not be created with its settings.

    Args:
        reason: what the client says.
    """
    return ConfigurationError(
        f"The client that reads records was not made: {reason}.", remedy="correct the settings consumer.*, or the login"
    )
