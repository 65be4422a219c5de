"""Having the broker's cleaner run: a new active segment, then the wait until the old ones are smaller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.config import StreamsConfig
from millrace.kafka.log_dirs import log_bytes
from millrace.kafka.producer import TaskProducer

_KEY = b"millrace-compaction"
_PROBE_EVERY_S = 5.0
"""A probe is a Java process of one or two seconds."""
_SMALL = 0.1
"""A partition of less than this share of the largest one is not waited for: it may have nothing superfluous."""


def roll_segments(config: StreamsConfig, logs: Mapping[str, Any]) -> None:
    """Append to each partition what no reader sees: a transaction that is aborted, as a crash leaves it.

    With the temporary ``segment.ms`` the broker begins a new segment for it. Repeating it is harmless.

    Raises:
        MillraceError: the broker does not take it.
    """
    with TaskProducer(
        config.bootstrap_servers,
        transactional_id=f"{config.application_id}-compaction",
        settings=config.client_settings("producer."),
    ) as producer:
        producer.init()
        producer.begin()
        now = np.array([int(time.time() * 1000)], dtype=np.int64)
        for topic, log in logs.items():
            for partition in log["bytes"]:
                producer.send(topic, [_KEY], [None], now, partition=int(partition))
        # What was not on the broker before the abort takes no offset.
        producer.flush()
        producer.abort()


def wait_for_cleaner(
    config: StreamsConfig, logs: Mapping[str, Any], *, budget_s: float, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Wait until each log is smaller by at least half of what seemed superfluous.

    Returns:
        ``cleaned``: whether all are; ``waiting``: partitions that are not.
    """

    def not_cleaned() -> list[str]:
        sizes = log_bytes(config.bootstrap_servers, list(logs), settings=config.client_settings("admin."))
        waiting = [
            f"{topic}-{number}"
            for topic, log in logs.items()
            for number, before in log["bytes"].items()
            if before > _SMALL * max(log["bytes"].values())
            and sizes.get((topic, int(number)), 0) > before * (1 - log["superfluous"] / 2)
        ]
        progress(f"the cleaner has {len(waiting)} partitions to go; {sum(sizes.values()):,} bytes")
        return waiting

    attempts = Retrying(
        retry=retry_if_result(bool),
        stop=stop_after_delay(budget_s),
        wait=wait_fixed(_PROBE_EVERY_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else [],
    )
    waiting: list[str] = attempts(not_cleaned)
    return {"cleaned": not waiting, "waiting": waiting}
