"""Records with old timestamps on a broker that removes what is older than an hour."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.offsets import begin_offsets
from tests.application import wait_until
from tests.broker import BROKER_PROPERTIES
from tests.integration.spark.conftest import World
from tests.records import Record, produce

TWO_YEARS_MS = 2 * 365 * 86_400_000
RECORDS = 100


@pytest.fixture
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that looks every second for records to remove."""
    properties = {
        **BROKER_PROPERTIES,
        "log.retention.ms": "3600000",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "0",
    }
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=properties) as started:
        yield started


def test_old_records_wait_in_a_repartition_topic_for_as_long_as_it_takes(
    forgetful: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Case S16. The sub-topology that reads the repartition topic does not run while the broker cleans up."""
    world = World(forgetful.bootstrap_servers, "old", tmp_path_factory.mktemp("applications"))
    try:
        world.create("events", "control")
        # The results are as old as the records, and this broker would remove them before they are read.
        world.create("groups", retention_ms="-1")
        application = world.application("rekeyed", config={"commit.interval.ms": 300}).start_and_wait()
        assert application.stop() == 0
        repartition = f"{application.application_id}-by-group-repartition"
        assert world.admin.topic_settings(repartition)["retention.ms"] == "-1"

        old = int(time.time() * 1000) - TWO_YEARS_MS
        records = [Record(b"k", b'{"group":"k"}', old) for _ in range(RECORDS)]
        produce(world.bootstrap_servers, repartition, records)
        produce(world.bootstrap_servers, world.name("control"), records)
        control = [(world.name("control"), 0)]
        wait_until(
            lambda: begin_offsets(world.admin, control)[control[0]] == RECORDS,
            timeout_s=120,
            what="the broker removed the old records of a topic with its own retention",
        )
        assert begin_offsets(world.admin, [(repartition, 0)]) == {(repartition, 0): 0}

        application.start_and_wait().wait_until_caught_up()
        last = world.read("groups")[-1]
        assert struct.unpack(">q", last.value or b"") == (RECORDS,)
    finally:
        world.close()
