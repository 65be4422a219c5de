"""The sizes of logs, read by the broker's ``kafka-log-dirs.sh``: the client library has no request for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import orjson

from millrace.errors import OperationError
from millrace.kafka.broker_tools import ask_broker_tool
from millrace.topology.topic_partition import TopicPartition

_TOOL = "org.apache.kafka.tools.LogDirsCommand"


def log_bytes(
    bootstrap_servers: str, topics: Collection[str], *, settings: Mapping[str, str] | None = None
) -> dict[TopicPartition, int]:
    """Returns the size of each partition's log, bytes: that of its largest replica.

    This takes one or two seconds of a Java process.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        topics: names of the topics; those that do not exist are left out.
        settings: client settings of the user, as librdkafka calls them.

    Raises:
        OperationError: the tool failed.
        PreflightError: there is no Java, or the broker's jars cannot be had.
    """
    if not topics:
        return {}
    text = ask_broker_tool(
        _TOOL,
        ["--describe", "--topic-list", ",".join(topics), "{connection}"],
        bootstrap_servers=bootstrap_servers,
        settings=settings,
        asking_for="the sizes of logs",
    )
    documents = [line for line in text.splitlines() if line.startswith("{")]
    if not documents:
        raise OperationError(
            f"{bootstrap_servers} does not tell the sizes of logs: {text.strip()[-500:]}",
            remedy="grant DESCRIBE on the cluster, or see the broker's log",
        )
    found: dict[TopicPartition, int] = {}
    for broker in orjson.loads(documents[-1])["brokers"]:
        for directory in broker["logDirs"]:
            for entry in directory["partitions"]:
                topic, _, number = entry["partition"].rpartition("-")
                if not entry.get("isFuture"):
                    found[topic, int(number)] = max(found.get((topic, int(number)), 0), entry["size"])
    return found
