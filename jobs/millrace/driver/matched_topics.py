"""The topics that match the patterns of a topology (KIP-105), read from the broker when an application starts.

What looks at an application that runs, or has run, takes those that it reads: a topic that was created since then
belongs to it from its next start on. Topologies without patterns cost no request.
"""

from __future__ import annotations

import time

from millrace.config import StreamsConfig
from millrace.driver.broker_retries import retry_until_answered
from millrace.errors import BrokerUnavailableError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.topology.source_topics import patterns_of, with_matched_topics
from millrace.topology.topology import FrozenTopology


def with_topics_to_read(topology: FrozenTopology, config: StreamsConfig) -> FrozenTopology:
    """Returns the topology with all topics that its patterns match now, which the next start reads.

    Raises:
        BrokerUnavailableError: no broker answers.
        TopologyError: a pattern matches no topic, or two match the same.
    """
    if not patterns_of(topology):
        return topology
    return with_matched_topics(topology, _admin(config).topic_names(), config.application_id)


def with_topics_at_start(topology: FrozenTopology, config: StreamsConfig) -> FrozenTopology:
    """Returns the same as :func:`with_topics_to_read`, and retries while no broker answers, as every start does.

    Raises:
        BrokerUnavailableError: no broker has answered within ``default.api.timeout.ms``.
        TopologyError: a pattern matches no topic, or two match the same.
    """

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def leave_to_the_log(_: BrokerUnavailableError) -> None:
        """Does nothing: the retry is in the log."""

    return retry_until_answered(
        lambda: with_topics_to_read(topology, config),
        limit_s=config.default_api_timeout_ms / 1000,
        on_wait=leave_to_the_log,
        wait=wait,
    )


def with_topics_read(topology: FrozenTopology, config: StreamsConfig) -> FrozenTopology:
    """Returns the topology with the matched topics in which the application has committed.

    Before its first commit these are all.

    Raises:
        BrokerUnavailableError: no broker answers.
        TopologyError: a pattern matches no topic, or two match the same.
    """
    now = with_topics_to_read(topology, config)
    if now is topology:
        return topology
    matched = {topic for source in patterns_of(now) for topic in source.topics}
    topic_partitions = [(topic, 0) for topic in sorted(matched)]
    committed = {topic for topic, _ in committed_offsets(_admin(config), config.application_id, topic_partitions)}
    # A pattern that is new in the topology has no topic yet that was read.
    unread = [source for source in patterns_of(now) if not committed & {*source.topics}]
    topics = committed.union(*(source.topics for source in unread))
    return with_matched_topics(topology, topics, config.application_id)


def _admin(config: StreamsConfig) -> KafkaAdmin:
    return KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))
