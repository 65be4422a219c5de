from __future__ import annotations

import threading

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Processor, Record, StreamsBuilder
from millrace.errors import TopologyError
from millrace.spark.plan import QueryPlan


class Holding(Processor[object, object]):
    def __init__(self, lock: object) -> None:
        self._lock = lock

    def process(self, record: Record[object, object], /) -> None:
        self.context.forward(record)


def test_a_supplier_that_cannot_be_pickled_is_named() -> None:
    lock = threading.Lock()
    builder = StreamsBuilder()
    builder.stream("in").process(lambda: Holding(lock), named="holding").to("out")
    plan = QueryPlan(
        sub_topology=builder.build().sub_topologies[0],
        config=StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "none:0"}),
        run_id=1,
        input_partitions={"in": 1},
        topic_ids={"in": "x"},
    )
    with pytest.raises(TopologyError, match=r"node holding cannot be sent to the workers"):
        plan.to_bytes()
