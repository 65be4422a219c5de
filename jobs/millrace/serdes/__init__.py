"""Serdes: bytes to values and back, per value and in columns."""

from __future__ import annotations

from millrace.serdes.base import Serde
from millrace.serdes.json import JsonSerde
from millrace.serdes.names import NAMED_SERDES, serde_by_name
from millrace.serdes.numbers import DoubleSerde, IntegerSerde, LongSerde
from millrace.serdes.primitives import BytesSerde, StringSerde
from millrace.serdes.session_windowed import SessionWindowedSerde, serialize_sessions
from millrace.serdes.windowed import TimeWindowedSerde, Windowed, deserialize_windowed, serialize_windowed

__all__ = [
    "NAMED_SERDES",
    "BytesSerde",
    "DoubleSerde",
    "IntegerSerde",
    "JsonSerde",
    "LongSerde",
    "Serde",
    "SessionWindowedSerde",
    "StringSerde",
    "TimeWindowedSerde",
    "Windowed",
    "deserialize_windowed",
    "serde_by_name",
    "serialize_sessions",
    "serialize_windowed",
]
