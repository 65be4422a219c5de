"""The metrics from the broker: changelogs, transactions, lag, and how long a restoration would take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from millrace.insight.export.exported import ExportedApplication
from millrace.insight.export.lag import records_behind
from millrace.insight.export.series import Sample
from millrace.insight.recovery import estimate_for
from millrace.kafka.log_dirs import log_bytes
from millrace.kafka.transactions import oldest_open_s
from millrace.metrics import exported as m
from millrace.metrics.exported import RestoreFrom, TransactionState
from millrace.operations.compaction.estimate import superfluous_share
from millrace.topology.layout import ApplicationTopics

DIRTY_SAMPLE_RECORDS = 100_000
_STATES = {
    "Empty": TransactionState.EMPTY,
    "Ongoing": TransactionState.OPEN,
    "PrepareCommit": TransactionState.ENDING,
    "PrepareAbort": TransactionState.ENDING,
    "PrepareEpochFence": TransactionState.ENDING,
    "CompleteCommit": TransactionState.COMMITTED,
    "CompleteAbort": TransactionState.ABORTED,
}


def changelogs(exported: ExportedApplication) -> Iterable[Sample]:
    """Sizes of changelogs, and how much of them is superfluous."""
    names = set(ApplicationTopics(exported.topology, exported.config.application_id).own_changelogs.values())
    existing = sorted(exported.admin.describe_topics(sorted(names)))
    sizes = log_bytes(exported.config.bootstrap_servers, existing, settings=exported.admin.settings)
    for topic in existing:
        partitions = {number: size for (name, number), size in sizes.items() if name == topic}
        yield Sample(m.CHANGELOG_SIZE, sum(partitions.values()), (topic,))
        settings = exported.admin.topic_settings(topic)
        if "compact" not in settings["cleanup.policy"]:
            continue
        yield Sample(m.CHANGELOG_THRESHOLD, float(settings["min.cleanable.dirty.ratio"]), (topic,))
        if any(partitions.values()):
            largest = max(partitions, key=partitions.__getitem__)
            share = superfluous_share(exported.config, topic, largest, most_records=DIRTY_SAMPLE_RECORDS)
            yield Sample(m.CHANGELOG_DIRTY, share, (topic,))


def transactions(exported: ExportedApplication) -> Iterable[Sample]:
    """Yields the broker's view of the application's transactional ids."""
    config = exported.config
    _ = exported.admin  # the broker's tool takes minutes to find that the broker does not answer
    own = own_transactional_ids(config.application_id)
    states = {name: each for name, each in exported.clusters.transactions(config).items() if own.fullmatch(name)}
    counts = Counter(_STATES[each] for each in states.values() if each in _STATES)
    for state in TransactionState:
        yield Sample(m.BROKER_TRANSACTIONS, counts[state], (state,))
    oldest = 0.0
    if counts[TransactionState.OPEN]:
        oldest = oldest_open_s(config.bootstrap_servers, states, settings=config.client_settings("admin."))
    yield Sample(m.OLDEST_TRANSACTION, oldest)
    yield Sample(m.TRANSACTION_TIMEOUT, config.transaction_timeout_ms / 1000)


def own_transactional_ids(application_id: str) -> re.Pattern[str]:
    """Returns the ids of an application's tasks, drivers and operations; those of ``a-b`` are none of ``a``."""
    return re.compile(rf"{re.escape(application_id)}-(\d+_\d+|start|driver|compaction)")


def lag(exported: ExportedApplication) -> Iterable[Sample]:
    """Records behind in each input partition that the group has committed."""
    inputs = ApplicationTopics(exported.topology, exported.config.application_id).inputs
    topic_partitions = [
        topic_partition
        for topic in exported.admin.describe_topics(sorted(inputs)).values()
        for topic_partition in topic.topic_partitions
    ]
    for (topic, partition), records in sorted(
        records_behind(exported.admin, exported.config, topic_partitions).items()
    ):
        yield Sample(m.GROUP_LAG, records, (topic, str(partition)))


def recovery(exported: ExportedApplication) -> Iterable[Sample]:
    """Yields how long a restoration on this host would take."""
    estimate = estimate_for(exported.config, exported.topology, admin=exported.admin)
    yield Sample(m.RESTORE_ESTIMATE, estimate.restore_s, (RestoreFrom.CHANGELOG,))
    yield Sample(m.RESTORE_ESTIMATE_RECORDS, estimate.records, (RestoreFrom.CHANGELOG,))
    if estimate.standby_runs:
        yield Sample(m.RESTORE_ESTIMATE, estimate.standby_restore_s, (RestoreFrom.STANDBY,))
        yield Sample(m.RESTORE_ESTIMATE_RECORDS, estimate.standby_records, (RestoreFrom.STANDBY,))
