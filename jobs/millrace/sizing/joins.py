"""Returns the cost of a stream-table join, and its output."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.sizing.checks import not_negative, positive, share

READ_CACHE_BYTES = 32 * (1 << 20)
"""Committed values that a task keeps as Python objects; the default of ``StateOptions.read_cache_bytes``."""


@dataclass(frozen=True, kw_only=True)
class JoinCosts:
    """Time of one core that a record takes, microseconds.

    Record and output were measured with ``TopologyTestDriver`` on two busy cores; a stored lookup is RocksDB's rate of
    400,000 reads a second on two quiet ones, a cached lookup a tenth of it.

    Args:
        record_us: reading a stream record and finding its position in time.
        stored_lookup_us: a lookup that goes to RocksDB, found in its block cache.
        cached_lookup_us: a lookup that the task's own cache answers.
        output_us: calling the join function (a Python callable), and writing its result.
    """

    record_us: float = 8.0
    stored_lookup_us: float = 2.5
    cached_lookup_us: float = 0.25
    output_us: float = 4.0

    def __post_init__(self) -> None:
        positive(record_us=self.record_us)
        not_negative(
            stored_lookup_us=self.stored_lookup_us, cached_lookup_us=self.cached_lookup_us, output_us=self.output_us
        )


@dataclass(frozen=True, kw_only=True)
class JoinPerformance:
    """A stream-table join under a load.

    Args:
        output_records_per_second: joined records.
        cached_share: lookups that the tasks' caches answer.
        record_us: time of one core that a stream record takes, microseconds.
        cores: cores that the load needs.
        capacity_records_per_second: stream records per second that the given cores can join at most.
        utilization: the load's part of the capacity; above 1 the lag grows.
    """

    output_records_per_second: float
    cached_share: float
    record_us: float
    cores: float
    capacity_records_per_second: float
    utilization: float


def estimate_join_performance(
    *,
    records_per_second: float,
    match_share: float,
    table_keys: int,
    entry_bytes: float,
    tasks: int = 1,
    cores: float = 1.0,
    left: bool = False,
    read_cache_bytes: float = READ_CACHE_BYTES,
    costs: JoinCosts | None = None,
) -> JoinPerformance:
    """Returns the cost of a stream-table join, and its output.

    ``output = records x match_share``, of a left join ``records``;
    ``cached = min(1, tasks x read_cache / (table_keys x entry_bytes))`` for keys that come evenly (skewed ones are
    found in the cache more often);
    ``cost = record + cached x cached_lookup + (1 - cached) x stored_lookup + output share x output``;
    ``capacity = min(cores, tasks) x 1,000,000 / cost``, since a task has one thread.
    A table larger than page cache and block cache adds a disk read to each stored lookup: give its time as
    ``stored_lookup_us`` then.

    Args:
        records_per_second: of the stream.
        match_share: share of the stream's records whose key is in the table, 0 to 1.
        table_keys: keys of the table.
        entry_bytes: one entry of the table: key, value and 8 bytes of timestamp.
        tasks: tasks of the sub-topology: partitions of its inputs.
        cores: cores that it has to itself.
        left: whether records without a partner are put out too.
        read_cache_bytes: cache of one task.
        costs: times per record; those of the defaults.

    Raises:
        ConfigurationError: a number is out of its range.
    """
    not_negative(records_per_second=records_per_second, table_keys=table_keys, read_cache_bytes=read_cache_bytes)
    positive(entry_bytes=entry_bytes, tasks=tasks, cores=cores)
    share(match_share=match_share)
    times = costs or JoinCosts()
    table_bytes = table_keys * entry_bytes
    cached = min(1.0, tasks * read_cache_bytes / table_bytes) if table_bytes else 1.0
    output_share = 1.0 if left else match_share
    lookup_us = cached * times.cached_lookup_us + (1 - cached) * times.stored_lookup_us
    record_us = times.record_us + lookup_us + output_share * times.output_us
    capacity = min(cores, tasks) * 1_000_000 / record_us
    return JoinPerformance(
        output_records_per_second=records_per_second * output_share,
        cached_share=cached,
        record_us=record_us,
        cores=records_per_second * record_us / 1_000_000,
        capacity_records_per_second=capacity,
        utilization=records_per_second / capacity,
    )
