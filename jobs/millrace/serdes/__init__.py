"""Serdes: bytes to values and back, per value and in columns."""

from __future__ import annotations

from millrace.serdes.avro import AvroSerde, topic_record_subject, topic_subject
from millrace.serdes.base import Serde, WindowedSerializer
from millrace.serdes.configured import serde_named
from millrace.serdes.functions import FunctionSerde, serde_from
from millrace.serdes.json import JsonSerde
from millrace.serdes.names import NAMED_SERDES, serde_by_name
from millrace.serdes.numbers import DoubleSerde, FloatSerde, IntegerSerde, LongSerde, ShortSerde
from millrace.serdes.primitives import BytesSerde, StringSerde
from millrace.serdes.session_windowed import SessionWindowedSerde, serialize_sessions
from millrace.serdes.times import BeyondDatetime
from millrace.serdes.uuids import UUIDSerde
from millrace.serdes.windowed import TimeWindowedSerde, Windowed, deserialize_windowed, serialize_windowed

__all__ = [
    "NAMED_SERDES",
    "AvroSerde",
    "BeyondDatetime",
    "BytesSerde",
    "DoubleSerde",
    "FloatSerde",
    "FunctionSerde",
    "IntegerSerde",
    "JsonSerde",
    "LongSerde",
    "Serde",
    "SessionWindowedSerde",
    "ShortSerde",
    "StringSerde",
    "TimeWindowedSerde",
    "UUIDSerde",
    "Windowed",
    "WindowedSerializer",
    "deserialize_windowed",
    "serde_by_name",
    "serde_from",
    "serde_named",
    "serialize_sessions",
    "serialize_windowed",
    "topic_record_subject",
    "topic_subject",
]
