"""The archive of the broker's classes, which saves the embedded broker and the broker's tools a third of their start.

See :mod:`millrace.kafka.jsa_archives`. It is recorded by a broker that does once what every application has it do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from millrace.embedded.broker import EmbeddedBroker
from millrace.errors import OperationError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.broker_java import broker_archive
from millrace.kafka.jars import BROKER_JARS, Progress, resolve_jars
from millrace.kafka.jsa_archives import QUIET, install_archive
from millrace.kafka.log_reader import IsolationLevel, LogReader
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec

_TOPIC = "class-recording"
_LIMIT_S = 300.0


def make_broker_archive(progress: Progress) -> Path:
    """Returns the archive for the installed Java and jars, and makes it if it is missing, which takes about 10 s.

    Archives of other versions are removed.

    Args:
        progress: gets a line of text for each step.

    Raises:
        BrokerUnavailableError, OperationError: the broker did not start, answer or end in time.
        PreflightError: Java or the jars are missing.
    """
    archive = broker_archive(resolve_jars(BROKER_JARS, progress=progress))
    if not archive.is_file():
        with recorded_broker(progress) as broker:
            _use(broker.bootstrap_servers)
    return archive


@contextmanager
def recorded_broker(progress: Progress) -> Iterator[EmbeddedBroker]:
    """Runs a broker that has no data; when it ends it leaves the archive, unless there is one.

    Args:
        progress: gets a line of text for each step.

    Raises:
        BrokerUnavailableError, OperationError: the broker did not start or end in time.
        PreflightError: Java or the jars are missing.
    """
    archive = broker_archive(resolve_jars(BROKER_JARS, progress=progress))
    # Beside the archive, so that it can be renamed: a half-written one is never used.
    with tempfile.TemporaryDirectory(prefix=".broker-", dir=archive.parent) as name:
        directory = Path(name)
        recorded = directory / archive.name
        options = (*QUIET, f"-XX:ArchiveClassesAtExit={recorded}")
        records = not archive.is_file()
        broker = EmbeddedBroker(directory / "broker", java_options=options if records else ())
        broker.start(progress=progress)
        try:
            yield broker
        finally:
            broker.stop(timeout_s=_LIMIT_S)
        if not records:
            return
        if not recorded.is_file():
            raise OperationError(
                "The broker's classes could not be recorded: it was killed, or wrote nothing.",
                remedy="brokers run without them too; their start takes longer",
            )
        install_archive(recorded, archive, progress)


def _use(bootstrap_servers: str) -> None:
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_missing([TopicSpec(name=_TOPIC, partitions=1)])
    with TaskProducer(bootstrap_servers, transactional_id=_TOPIC) as producer:
        producer.init()
        producer.begin()
        producer.send(_TOPIC, [b"key"], [b"value"], np.zeros(1, np.int64), partition=0)
        producer.commit({(_TOPIC, 0): (0, "")}, _TOPIC)
    committed_offsets(admin, _TOPIC, [(_TOPIC, 0)])
    with LogReader(bootstrap_servers, None, group=_TOPIC, isolation=IsolationLevel.READ_COMMITTED) as reader:
        list(reader.read({(_TOPIC, 0): 0}, timeout_s=_LIMIT_S))
