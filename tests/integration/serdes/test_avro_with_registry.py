"""``AvroSerde`` against a real schema registry and Confluent's own serializers."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import ConfigurationError, SchemaRegistryUnavailableError, SerializationError
from millrace.metrics import DropReason
from millrace.serdes import AvroSerde, BytesSerde, StringSerde, topic_subject
from millrace.testing import TestRecord, TopologyTestDriver
from tests.integration.serdes.registry import SchemaRegistryProcess

NO_RETRIES = {"timeout": 5, "max.retries": 0}
ROW = {"id": "a", "cents": 5}
_UNKNOWN_ID = 999_999
_JSON_SCHEMA = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}'


def order(*more: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}, *more]
    return {"type": "record", "name": name, "namespace": "shop", "fields": fields}


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OBLIGATORY = {"name": "shop", "type": "string"}


def test_values_are_written_in_confluent_s_wire_format_under_the_subject(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    subject = topic_subject(unique)
    serde = AvroSerde(order(), registry_url=registry.url, subject=subject)
    data = serde.serialize(ROW)
    registered = registry_client.get_latest_version(subject)
    assert registered.schema_id is not None
    assert data == b"\0" + struct.pack(">I", registered.schema_id) + AvroSerde(order()).serialize(ROW)
    assert serde.deserialize(data) == ROW
    assert serde.serialize_column(pa.array([ROW, None])).to_pylist() == [data, None]
    assert serde.deserialize_column(pa.array([data, None])).to_pylist() == [ROW, None]


def test_without_a_subject_the_record_s_full_name_is_taken(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    AvroSerde(order(name=unique), registry_url=registry.url).serialize(ROW)
    assert registry_client.get_latest_version(f"shop.{unique}").subject == f"shop.{unique}"


def test_confluent_s_serializers_read_and_write_the_same(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    serde = AvroSerde(order(), registry_url=registry.url, subject=topic_subject(unique))
    context = SerializationContext(unique, MessageField.VALUE)
    theirs = AvroSerializer(registry_client, json.dumps(order()))(ROW, context)
    assert serde.deserialize(theirs) == ROW
    assert AvroDeserializer(registry_client)(serde.serialize(ROW), context) == ROW


def test_each_value_is_read_with_the_schema_of_its_id(registry: SchemaRegistryProcess, unique: str) -> None:
    older = AvroSerde(order(), registry_url=registry.url, subject=unique)
    newer = AvroSerde(order(NOTE), registry_url=registry.url, subject=unique)
    data = [older.serialize(ROW), newer.serialize({**ROW, "note": "x"})]
    assert [newer.deserialize(item) for item in data] == [{**ROW, "note": None}, {**ROW, "note": "x"}]
    assert [older.deserialize(item) for item in data] == [ROW, ROW]
    assert newer.deserialize_column(pa.array(data)).to_pylist() == [{**ROW, "note": None}, {**ROW, "note": "x"}]


def test_a_union_keeps_its_branch_with_a_registry(registry: SchemaRegistryProcess, unique: str) -> None:
    """Case P07."""
    events = [order(name=name) for name in ("Created", "Deleted")]
    envelope = order({"name": "event", "type": events}, name="Envelope")
    serde = AvroSerde(envelope, registry_url=registry.url, subject=unique)
    deleted = serde.serialize({**ROW, "event": ("shop.Deleted", ROW)})
    assert serde.serialize(serde.deserialize(deleted)) == deleted
    assert deleted.endswith(b"\2" + AvroSerde(order()).serialize(ROW))


def test_a_schema_may_refer_to_others(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    registry_client.register_schema(f"{unique}-order", Schema(json.dumps(order()), "AVRO"))
    basket = {
        "type": "record",
        "name": "shop.Basket",
        "fields": [{"name": "orders", "type": {"type": "array", "items": "shop.Order"}}],
    }
    reference = SchemaReference("shop.Order", f"{unique}-order", 1)
    schema_id = registry_client.register_schema(unique, Schema(json.dumps(basket), "AVRO", [reference]))
    whole = {**basket, "fields": [{"name": "orders", "type": {"type": "array", "items": order()}}]}
    data = b"\0" + struct.pack(">I", schema_id) + AvroSerde(whole).serialize({"orders": [ROW]})
    assert AvroSerde(whole, registry_url=registry.url).deserialize(data) == {"orders": [ROW]}


def test_the_registry_is_asked_once_and_not_for_every_value(registry: SchemaRegistryProcess, unique: str) -> None:
    serde = AvroSerde(order(), registry_url=registry.url, subject=unique)
    unknown = b"\0" + struct.pack(">I", _UNKNOWN_ID)
    data = serde.serialize(ROW)
    assert serde.deserialize(data) == ROW
    with pytest.raises(SerializationError):
        serde.deserialize(unknown)
    registry.pause()
    try:
        copy = pickle.loads(pickle.dumps(serde))
        for _ in range(1_000):
            assert copy.deserialize(serde.serialize(ROW)) == ROW
        with pytest.raises(SerializationError, match="does not know"):
            copy.deserialize(unknown)
    finally:
        registry.resume()


def test_a_pickled_serde_makes_its_client_in_the_process_that_uses_it(
    registry: SchemaRegistryProcess, unique: str
) -> None:
    serde = AvroSerde(order(), registry_url=registry.url, subject=unique)
    data = serde.serialize(ROW)
    code = "import pickle, sys; serde, data = pickle.load(sys.stdin.buffer); print(serde.deserialize(data)['id'])"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps((serde, data)), capture_output=True, check=False
    )
    assert done.stdout.decode().strip() == "a", done.stderr.decode()[-2000:]


def test_an_unknown_id_is_an_error_of_the_record(registry: SchemaRegistryProcess) -> None:
    serde = AvroSerde(order(), registry_url=registry.url)
    with pytest.raises(SerializationError, match=rf"does not know the schema id {_UNKNOWN_ID}.*Remedy"):
        serde.deserialize(b"\0" + struct.pack(">I", _UNKNOWN_ID) + b"\2a\2")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0\1\2a\2", b"{}      "])
def test_bytes_without_the_magic_byte_and_an_id_are_refused(registry: SchemaRegistryProcess, data: bytes) -> None:
    with pytest.raises(SerializationError, match="do not begin with 0"):
        AvroSerde(order(), registry_url=registry.url).deserialize(data)


def test_an_incompatible_schema_is_not_registered(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    AvroSerde(order(), registry_url=registry.url, subject=unique).serialize(ROW)
    registry_client.set_compatibility(unique, "BACKWARD")
    worse = AvroSerde(order(OBLIGATORY), registry_url=registry.url, subject=unique)
    with pytest.raises(ConfigurationError, match=rf"under the subject '{unique}': it is not compatible.*Remedy"):
        worse.serialize({**ROW, "shop": "x"})
    AvroSerde(order(NOTE), registry_url=registry.url, subject=unique).serialize(ROW)


def test_a_writer_s_schema_that_does_not_resolve_is_an_error_of_the_record(
    registry: SchemaRegistryProcess, unique: str
) -> None:
    data = AvroSerde(order(), registry_url=registry.url, subject=unique).serialize(ROW)
    reader = AvroSerde(order(OBLIGATORY), registry_url=registry.url, subject=unique)
    with pytest.raises(SerializationError, match=r"cannot be read with the reader's.*shop.*Remedy"):
        reader.deserialize(data)


def test_without_auto_register_the_subject_must_have_the_schema(registry: SchemaRegistryProcess, unique: str) -> None:
    careful = AvroSerde(order(), registry_url=registry.url, subject=unique, auto_register=False)
    with pytest.raises(ConfigurationError, match=rf"does not have .* '{unique}'.*auto_register"):
        careful.serialize(ROW)
    written = AvroSerde(order(), registry_url=registry.url, subject=unique).serialize(ROW)
    assert careful.serialize(ROW) == written


def test_a_schema_of_another_format_is_an_error_of_the_record(
    registry: SchemaRegistryProcess, registry_client: SchemaRegistryClient, unique: str
) -> None:
    schema_id = registry_client.register_schema(unique, Schema(_JSON_SCHEMA, "JSON"))
    with pytest.raises(SerializationError, match="is of type JSON, not AVRO"):
        AvroSerde(order(), registry_url=registry.url).deserialize(b"\0" + struct.pack(">I", schema_id))


def test_a_registry_that_nobody_runs_is_unavailable_and_no_fault_of_the_record() -> None:
    serde = AvroSerde(order(), registry_url="http://127.0.0.1:9", registry_settings=NO_RETRIES)
    for attempt in (lambda: serde.serialize(ROW), lambda: serde.deserialize(b"\0\0\0\0\1\2a\2")):
        with pytest.raises(SchemaRegistryUnavailableError, match=r"http://127.0.0.1:9 does not answer.*Remedy"):
            attempt()


def test_a_registry_that_hangs_is_unavailable_after_the_time_limit_and_used_again_later(
    registry: SchemaRegistryProcess, unique: str
) -> None:
    serde = AvroSerde(order(), registry_url=registry.url, subject=unique, registry_settings=NO_RETRIES)
    registry.pause()
    try:
        with pytest.raises(SchemaRegistryUnavailableError, match="does not answer: ReadTimeout"):
            serde.serialize(ROW)
    finally:
        registry.resume()
    assert serde.deserialize(serde.serialize(ROW)) == ROW


def test_an_address_without_the_api_and_a_wrong_setting_are_refused(registry: SchemaRegistryProcess) -> None:
    elsewhere = AvroSerde(order(), registry_url=registry.url.replace("/apis/", "/no/"))
    with pytest.raises(ConfigurationError, match="check the address"):
        elsewhere.serialize(ROW)
    with pytest.raises(ConfigurationError, match=r"no\.such"):
        AvroSerde(order(), registry_url=registry.url, registry_settings={"no.such": 1}).serialize(ROW)


def test_in_a_topology_bad_records_are_skipped_and_an_absent_registry_is_not(
    registry: SchemaRegistryProcess, unique: str
) -> None:
    serde = AvroSerde(order(), registry_url=registry.url, subject=unique)
    absent = AvroSerde(order(), registry_url="http://127.0.0.1:9", registry_settings=NO_RETRIES)
    settings = {"deserialization.exception.handler": "continue"}
    good, bad = serde.serialize(ROW), b"\0" + struct.pack(">I", _UNKNOWN_ID)
    records = [TestRecord("k", good, 1), TestRecord("k", bad, 2), TestRecord("k", good, 3)]
    for value_serde in (serde, absent):
        builder = StreamsBuilder()
        stream = builder.stream("in", Consumed.with_(StringSerde(), value_serde))
        stream.filter(pc.field("cents") > 1).to("out", Produced.with_(StringSerde(), value_serde))
        with TopologyTestDriver(builder.build(), settings) as driver:
            topic = driver.create_input_topic("in", StringSerde(), BytesSerde())
            if value_serde is absent:
                with pytest.raises(SchemaRegistryUnavailableError):
                    topic.pipe_batch(records)
            else:
                topic.pipe_batch(records)
                assert driver.create_output_topic("out", StringSerde(), serde).read_key_values() == [("k", ROW)] * 2
                assert driver.dropped == {DropReason.DESERIALIZATION: 1}
