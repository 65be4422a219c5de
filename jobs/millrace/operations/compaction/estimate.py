"""How much of a log is superfluous. The cleaner's own marks lie in a file of the broker, so records are read."""

from __future__ import annotations

import time

from millrace.config import StreamsConfig
from millrace.state.changelog_reader import BrokerChangelogReader

MOST_RECORDS = 500_000
_LIMIT_S = 20.0


def superfluous_share(config: StreamsConfig, topic: str, partition: int, *, most_records: int = MOST_RECORDS) -> float:
    """The share of the newest records of a log that a later one of the same key replaces.

    A log is larger than what is looked at, and older records are replaced more often: the true share is at least this.

    Args:
        config: the application's configuration.
        topic: the topic.
        partition: its largest partition, which stands for the others: keys are spread by their hash.
        most_records: how many of the newest are looked at.

    Raises:
        MillraceError: the log cannot be read.
    """
    reader = BrokerChangelogReader(
        topic,
        partition,
        bootstrap_servers=config.bootstrap_servers,
        settings=config.client_settings("consumer."),
    )
    keys: set[int] = set()
    records = 0
    deadline = time.monotonic() + _LIMIT_S
    try:
        begin, end = reader.log_range()
        reader.start(max(begin, end - most_records))
        position = begin
        while position < end and time.monotonic() < deadline:
            for columns in reader.read():
                of_log = columns.before(end)
                position = of_log.position
                records += len(of_log)
                keys.update(map(hash, of_log.keys.to_pylist()))
    finally:
        reader.close()
    return 1 - len(keys) / records if records else 0.0
