"""Deciding what a compaction does: which logs are worth it, which settings are to be put back, what else is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.config import StreamsConfig
from millrace.driver.matched_topics import with_topics_read
from millrace.dsl.loading import load_topology
from millrace.install.application import Application
from millrace.install.connection import admin_of
from millrace.install.launchers import refuse_state_elsewhere
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.log_dirs import log_bytes
from millrace.operations import OperationPlan
from millrace.operations.compaction.estimate import superfluous_share
from millrace.operations.compaction.settings import COMPACT, left_behind, original_settings
from millrace.topology.layout import ApplicationTopics

MEBIBYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CompactionOptions:
    """What is compacted, and for how long.

    Args:
        budget_s: seconds for the cleaner and for the stores together; what is not done by then is said.
        least_bytes: a changelog of fewer bytes, all partitions together, is left alone.
        least_superfluous: least share of superfluous records that makes a changelog worth it.
        changelogs: whether changelogs are cleaned.
        repartition_topics: whether repartition topics are purged.
        stores: whether the files of stores are rewritten.
    """

    budget_s: float = 600.0
    least_bytes: int = MEBIBYTE
    least_superfluous: float = 0.5
    changelogs: bool = True
    repartition_topics: bool = True
    stores: bool = True


def plan_compaction(application: Application, options: CompactionOptions, *, reason: str) -> OperationPlan:
    """Look at the logs and decide.

    Raises:
        MillraceError: the application is not known, the broker does not answer, or the stores of a stopped
            application are not on this host.
    """
    spec = application.launched.spec
    config = spec.streams_config()
    topology = with_topics_read(load_topology(spec.module, config), config)
    admin = admin_of(config)
    directory = application.directory
    record = application.record
    rewrites = options.stores and any(part.stores for part in topology.sub_topologies)
    if rewrites and (record is None or not record.is_driver_alive(directory)):
        # A running one's workers do it, wherever they are.
        refuse_state_elsewhere(spec, what="rewrite the files of the stores of the stopped application")
    topics = ApplicationTopics(topology, config.application_id)
    existing = sorted(admin.describe_topics(sorted(topics.own_changelogs.values())))
    wrong = left_behind(admin, directory, topology, existing)
    logs, passed_over = _changelogs(config, admin, existing if options.changelogs else [], options)
    repartition = sorted(topics.repartition_topics)
    return OperationPlan(
        operation=COMPACT,
        application=application.name,
        reason=reason,
        decisions={
            "logs": logs,
            "passed_over": passed_over,
            "settings": {topic: original_settings(admin, topic, wrong.get(topic, {})) for topic in logs},
            "left_behind": wrong,
            "repartition_topics": sorted(admin.describe_topics(repartition)) if options.repartition_topics else [],
            "stores": rewrites,
            "budget_s": options.budget_s,
        },
    )


def _changelogs(
    config: StreamsConfig, admin: KafkaAdmin, topics: list[str], options: CompactionOptions
) -> tuple[dict[str, Any], dict[str, str]]:
    """The changelogs that are worth it, and why the others are not."""
    sizes = log_bytes(config.bootstrap_servers, topics, settings=admin.settings)
    worth: dict[str, Any] = {}
    passed_over: dict[str, str] = {}
    for topic in topics:
        partitions = {number: size for (name, number), size in sizes.items() if name == topic}
        total = sum(partitions.values())
        if "compact" not in admin.topic_settings(topic)["cleanup.policy"]:
            passed_over[topic] = "it is not compacted"
            continue
        if total < options.least_bytes or not partitions:
            passed_over[topic] = f"it has {total:,} bytes"
            continue
        share = superfluous_share(config, topic, max(partitions, key=partitions.__getitem__))
        if share < options.least_superfluous:
            passed_over[topic] = f"{share:.0%} of its records are superfluous"
            continue
        worth[topic] = {"bytes": {str(number): size for number, size in partitions.items()}, "superfluous": share}
    return worth, passed_over
