"""``python -m millrace.spark.class_recording BOOTSTRAP_SERVERS ARCHIVE``: a short query whose classes are archived.

It does once what a driver does for every batch: a streaming query on Kafka, ``mapInArrow`` inside ``foreachBatch``, and
the bounded frame of the warm-up.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millrace.config import ProcessingEngine, StreamsConfig
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.jars import SPARK_KAFKA_JARS, resolve_jars
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.spark.class_archive import recording_settings
from millrace.spark.micro_batches.source import bounded_frame, streaming_frame
from millrace.spark.session import create_session
from millrace.topology.nodes import SourceNode
from millrace.topology.parts import SubTopology

_TOPICS = ("first", "second")
_PARTITIONS = 2
_RECORDS = 1_000
_BATCHES = 3
_BATCHES_LIMIT_S = 600


def record(bootstrap_servers: str, archive: Path) -> None:
    """Runs the query, ends the virtual machine, and returns when the archive is written."""
    config = StreamsConfig.from_mapping({
        "application.id": "class-recording",
        "bootstrap.servers": bootstrap_servers,
        "max.batch.records": _RECORDS,
    })  # fmt: skip
    _fill_topics(bootstrap_servers)
    jars = resolve_jars(SPARK_KAFKA_JARS)
    session = create_session(config, ProcessingEngine.MICRO_BATCHES, jars, recording_settings(jars, archive))
    starts = {(topic, partition): 0 for topic in _TOPICS for partition in range(_PARTITIONS)}
    # Two topics need a shuffle, one does not.
    for topics in (_TOPICS, _TOPICS[:1]):
        part = SubTopology(number=0, nodes=(SourceNode(name="source", topics=topics),), stores=())
        own = {topic_partition: offset for topic_partition, offset in starts.items() if topic_partition[0] in topics}
        bounded_frame(session, part, config, own, dict.fromkeys(own, 10)).mapInArrow(_count, "rows long").collect()
        _run_stream(streaming_frame(session, part, config, own), shuffle=len(topics) > 1)
    _end(session)


def _fill_topics(bootstrap_servers: str) -> None:
    KafkaAdmin(bootstrap_servers).create_missing([TopicSpec(name=name, partitions=_PARTITIONS) for name in _TOPICS])
    with TaskProducer(bootstrap_servers, transactional_id="class-recording") as producer:
        producer.init()
        for _ in range(_BATCHES):
            producer.begin()
            for name in _TOPICS:
                producer.send(
                    name,
                    [b"%d" % number for number in range(_RECORDS)],
                    [b"value"] * _RECORDS,
                    np.full(_RECORDS, int(time.time() * 1000)),
                    headers=[[("name", b"value")]] * _RECORDS,
                )
            producer.commit({}, "class-recording")


def _run_stream(frame: DataFrame, *, shuffle: bool) -> None:
    def on_batch(batch: DataFrame, _number: int) -> None:
        divided = batch.repartitionById(_PARTITIONS, batch["partition"]) if shuffle else batch
        divided.mapInArrow(_count, "rows long").collect()

    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(on_batch)
            .start()
        )
        if not query.awaitTermination(_BATCHES_LIMIT_S):
            raise TimeoutError(f"the query did not end within {_BATCHES_LIMIT_S} s")


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def _end(session: SparkSession) -> None:
    """Ends the virtual machine as at the end of a driver: by the end of its standard input."""
    gateway = session.sparkContext._gateway
    session.stop()
    assert gateway is not None
    machine = gateway.proc
    gateway.shutdown()
    machine.stdin.close()
    machine.wait()


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
