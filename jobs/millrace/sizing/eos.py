"""The cost of exactly-once processing."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.sizing.checks import not_negative, positive

MARKER_BYTES = 78
"""A transaction's marker in a partition: a batch of its own (61 bytes) with one control record (17). Source: KIP-98."""

TRANSACTION_S = 0.02
"""What a transaction adds to a batch of one task: sending the offsets, and the two phases of the commit. Measured with
``TaskProducer`` on the embedded broker on two cores: 3 ms where they are idle, 30 where they are busy; a cluster adds
its replication to each of the writes."""


@dataclass(frozen=True, kw_only=True)
class EosOverhead:
    """The cost that transactions add to at-least-once processing, over all tasks.

    Args:
        transactions_per_second: commits.
        markers_per_second: control records in output, changelog and repartition topics and in the group's offsets.
        marker_bytes_per_second: bytes of them, one replica.
        log_share: markers' part of all bytes written.
        time_share: part of each task's time that goes to committing; at 1 and above a task cannot keep the interval.
        mean_latency_s: added to a record until readers of committed records see it: they wait for the commit.
        largest_latency_s: the same for the first record of a transaction.
    """

    transactions_per_second: float
    markers_per_second: float
    marker_bytes_per_second: float
    log_share: float
    time_share: float
    mean_latency_s: float
    largest_latency_s: float


def calculate_eos_overhead(
    *,
    tasks: int,
    partitions_per_transaction: float,
    commit_interval_s: float,
    bytes_per_second: float,
    transaction_s: float = TRANSACTION_S,
) -> EosOverhead:
    """Returns the cost that exactly-once processing adds to at-least-once processing.

    ``transactions/s = tasks / commit_interval``;
    ``markers/s = transactions/s x (partitions_per_transaction + 1)``, the 1 for the partition of the group's offsets;
    ``log_share = marker bytes / (marker bytes + bytes_per_second)``; ``time_share = transaction / commit_interval``;
    ``latency = commit_interval / 2 + transaction`` on average and ``commit_interval + transaction`` at most.
    The number of records does not matter: larger transactions cost less per record. Source: KIP-98 and KIP-447.

    Args:
        tasks: tasks that commit, each in a transaction of its own.
        partitions_per_transaction: partitions that one task writes to within one interval: outputs, changelogs,
            repartition topics, dead-letter records.
        commit_interval_s: time between two commits of a task, seconds.
        bytes_per_second: what all tasks write, without markers.
        transaction_s: what a transaction adds to a batch, seconds.

    Raises:
        ConfigurationError: a number is out of its range.
    """
    positive(tasks=tasks, commit_interval_s=commit_interval_s)
    not_negative(
        partitions_per_transaction=partitions_per_transaction,
        bytes_per_second=bytes_per_second,
        transaction_s=transaction_s,
    )
    transactions = tasks / commit_interval_s
    markers = transactions * (partitions_per_transaction + 1)
    marker_bytes = markers * MARKER_BYTES
    return EosOverhead(
        transactions_per_second=transactions,
        markers_per_second=markers,
        marker_bytes_per_second=marker_bytes,
        log_share=marker_bytes / (marker_bytes + bytes_per_second),
        time_share=transaction_s / commit_interval_s,
        mean_latency_s=commit_interval_s / 2 + transaction_s,
        largest_latency_s=commit_interval_s + transaction_s,
    )
