"""The time until an application that failed processes current records again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from millrace.errors import ConfigurationError
from millrace.sizing.checks import not_negative, positive

RESTORE_BYTES_PER_S = 25 * (1 << 20)
"""Changelog bytes that one task restores in a second. Measured on two busy cores from the embedded broker: 27 MiB/s
with records of 126 bytes (220,000 a second), 29 MiB/s with records of 1,026."""

RESTORE_RECORDS_PER_S = 220_000
"""Changelog records of about 100 bytes that one restoration applies in a second, where the host has not shown another
rate: that of a task which shares two busy cores with the broker."""

RESTORE_START_S = 0.5
"""What a task takes before its first changelog record: connections, the log's ends, the first fetch."""


@dataclass(frozen=True, kw_only=True)
class RecoveryTime:
    """The time of a recovery, by its parts.

    Args:
        restore_bytes: changelog bytes to read.
        restore_s: until the stores are whole.
        catch_up_s: from then on, until what arrived meanwhile is processed.
        total_s: from the failure until the lag is what it was before: with detection and start.
    """

    restore_bytes: float
    restore_s: float
    catch_up_s: float
    total_s: float


def estimate_recovery_time(
    *,
    changelog_bytes: float,
    tasks: int = 1,
    restore_threads: int = 1,
    restore_bytes_per_s: float = RESTORE_BYTES_PER_S,
    restore_start_s: float = RESTORE_START_S,
    standby: bool = False,
    update_bytes_per_s: float = 0.0,
    standby_lag_s: float = 1.0,
    start_s: float = 0.0,
    utilization: float = 0.0,
) -> RecoveryTime:
    """Returns how long a recovery takes after all local state is lost or a host is gone.

    ``restore = ceil(tasks / restore_threads) x (restore_start + bytes / tasks / restore_bytes_per_s)``, where the bytes
    are those of all changelogs, or, with a standby, only what it has not read yet:
    ``min(changelog_bytes, update_bytes_per_s x standby_lag_s)``. Meanwhile input goes on arriving:
    ``catch_up = (start + restore) x utilization / (1 - utilization)``, since what arrives during the catching up takes
    its share of the capacity. ``total = start + restore + catch_up``. Source: a queue with constant rates of arrival
    and service.

    Args:
        changelog_bytes: bytes of all changelogs to restore from, over all tasks.
        tasks: tasks with stores.
        restore_threads: tasks that restore at the same time (``restore.threads``).
        restore_bytes_per_s: bytes per second of one restoring task.
        restore_start_s: what a task takes before its first changelog record, seconds.
        standby: whether a standby copy is there.
        update_bytes_per_s: what is written to the changelogs per second, over all tasks; for the standby's tail.
        standby_lag_s: how far the standby is behind, seconds.
        start_s: from the failure until restoring begins: its detection, and the start of driver and Spark.
        utilization: share of the capacity that the load takes, below 1.

    Raises:
        ConfigurationError: a number is out of its range, or the utilization is 1 or more: it would never catch up.
    """
    not_negative(
        changelog_bytes=changelog_bytes,
        update_bytes_per_s=update_bytes_per_s,
        standby_lag_s=standby_lag_s,
        restore_start_s=restore_start_s,
        start_s=start_s,
        utilization=utilization,
    )
    positive(tasks=tasks, restore_threads=restore_threads, restore_bytes_per_s=restore_bytes_per_s)
    if utilization >= 1:
        raise ConfigurationError(
            f"utilization must be below 1, not {utilization}: the application would never catch up.",
            remedy="add cores or partitions until the load leaves capacity free",
        )
    to_read = min(changelog_bytes, update_bytes_per_s * standby_lag_s) if standby else changelog_bytes
    rounds = math.ceil(tasks / restore_threads)
    restore_s = rounds * (restore_start_s + to_read / tasks / restore_bytes_per_s) if to_read else 0.0
    catch_up_s = (start_s + restore_s) * utilization / (1 - utilization)
    return RecoveryTime(
        restore_bytes=to_read,
        restore_s=restore_s,
        catch_up_s=catch_up_s,
        total_s=start_s + restore_s + catch_up_s,
    )


def estimate_restore_time(
    records: Sequence[int],
    *,
    restore_threads: int,
    records_per_s: float = RESTORE_RECORDS_PER_S,
    restore_start_s: float = RESTORE_START_S,
) -> float:
    """Returns the seconds until the last of several restorations is done, where each takes the next slot that is free.

    ``start + records / records_per_s`` for each, the largest first, on ``restore_threads`` slots. Source: list
    scheduling (Graham), which is what restorations do that wait for a slot.

    Args:
        records: changelog records of each restoration; those without records take no time.
        restore_threads: restorations at the same time (``restore.threads``).
        records_per_s: records per second of one of them while as many run.
        restore_start_s: what it takes before its first record, seconds.

    Raises:
        ConfigurationError: a number is out of its range.
    """
    positive(restore_threads=restore_threads, records_per_s=records_per_s)
    not_negative(restore_start_s=restore_start_s, records=min(records, default=0))
    busy_until = [0.0] * restore_threads
    for count in sorted((count for count in records if count), reverse=True):
        first = busy_until.index(min(busy_until))
        busy_until[first] += restore_start_s + count / records_per_s
    return max(busy_until)
