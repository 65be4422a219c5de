"""``Joined`` as Kafka Streams has it: with three serdes, of which the table's changes nothing."""

from __future__ import annotations

from typing import Any

from millrace.dsl import Consumed, Joined, StreamsBuilder
from millrace.serdes import JsonSerde, LongSerde, StringSerde

TEXT = StringSerde()


def test_the_third_serde_is_that_of_the_other_values() -> None:
    joined = Joined.with_(TEXT, LongSerde(), JsonSerde())
    assert (joined.key_serde, joined.value_serde) == (TEXT, LongSerde())
    assert joined == Joined.with_(TEXT, LongSerde()).with_other_value_serde(JsonSerde())


def test_a_topology_is_the_same_with_any_serde_of_the_table() -> None:
    def fingerprint(other: Any) -> str:
        builder = StreamsBuilder()
        table = builder.table("t", Consumed.with_(TEXT, LongSerde()))
        stream = builder.stream("s", Consumed.with_(TEXT, TEXT)).select_key(lambda key, value: value)
        stream.join(table, lambda left, right: left, joined=Joined.with_(TEXT, TEXT, other)).to("out")
        return builder.build().fingerprint

    assert fingerprint(None) == fingerprint(JsonSerde())
