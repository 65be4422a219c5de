from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Consumed, Materialized, Repartitioned, StreamsBuilder
from millrace.kafka.murmur2 import partition_for
from millrace.queries.catalog import Catalog, CatalogEntry
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Operation
from millrace.serdes import LongSerde, StringSerde


def counted(partitioner: Any = None) -> CatalogEntry:
    """The store of a count behind a repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))
    repartitioned = Repartitioned.with_(StringSerde(), LongSerde()).with_name("spread")
    if partitioner is not None:
        repartitioned = repartitioned.with_stream_partitioner(partitioner)
    stream.repartition(repartitioned).group_by_key().count(Materialized.as_("counts"))
    return Catalog(builder.build(), "app").store("counts")


def test_a_key_is_in_the_partition_that_kafkas_partitioner_gives_it() -> None:
    assert counted().partition_of(b"k", 7) == partition_for(b"k", 7)


def test_the_partition_of_a_key_is_not_guessed_where_the_applications_own_partitioner_decides() -> None:
    entry = counted(lambda topic, key, value, partitions: 0)
    with pytest.raises(QueryRefusedError, match="app-spread-repartition") as refused:
        entry.partition_of(b"k", 7)
    assert refused.value.reason is Reason.BAD_REQUEST
    assert "partition=" in refused.value.remedy
    assert "range" in refused.value.remedy


def test_an_operation_of_another_kind_is_refused_with_those_that_there_are() -> None:
    assert counted().operation("get_many") is Operation.GET_MANY
    for name in ("fetch", "put"):
        with pytest.raises(QueryRefusedError) as refused:
            counted().operation(name)
        assert refused.value.reason is Reason.BAD_REQUEST
        assert "get, get_many, range, prefix, all" in refused.value.remedy
