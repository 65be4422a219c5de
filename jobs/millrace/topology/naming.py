"""Names of nodes, stores and internal topics: what is legal, and the prefixes of the generated ones.

Generated names follow Kafka Streams (a prefix and a ten-digit counter), so that stores and internal topics of a
topology written for it keep their names here.
"""

from __future__ import annotations

import re

from millrace.errors import TopologyError

STREAM_SOURCE = "KSTREAM-SOURCE-"
STREAM_SINK = "KSTREAM-SINK-"
STREAM_FILTER = "KSTREAM-FILTER-"
STREAM_MAP = "KSTREAM-MAP-"
STREAM_MAP_VALUES = "KSTREAM-MAPVALUES-"
STREAM_FLAT_MAP = "KSTREAM-FLATMAP-"
STREAM_FLAT_MAP_VALUES = "KSTREAM-FLATMAPVALUES-"
STREAM_SELECT_KEY = "KSTREAM-KEY-SELECT-"
STREAM_PEEK = "KSTREAM-PEEK-"
STREAM_PRINT = "KSTREAM-PRINTER-"
STREAM_FOREACH = "KSTREAM-FOREACH-"
STREAM_PROCESSOR = "KSTREAM-PROCESSOR-"
STREAM_PROCESS_VALUES = "KSTREAM-PROCESSVALUES-"
STREAM_BRANCH = "KSTREAM-BRANCH-"
STREAM_MERGE = "KSTREAM-MERGE-"
STREAM_REPARTITION = "KSTREAM-REPARTITION-"
STREAM_TO_TABLE = "KSTREAM-TOTABLE-"
STREAM_AGGREGATE = "KSTREAM-AGGREGATE-"
STREAM_REDUCE = "KSTREAM-REDUCE-"
COGROUP_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
COGROUP_MERGE = "COGROUPKSTREAM-MERGE-"
STREAM_JOIN = "KSTREAM-JOIN-"
STREAM_LEFT_JOIN = "KSTREAM-LEFTJOIN-"
STREAM_WINDOWED = "KSTREAM-WINDOWED-"
STREAM_JOIN_THIS = "KSTREAM-JOINTHIS-"
STREAM_JOIN_OTHER = "KSTREAM-JOINOTHER-"
STREAM_OUTER_THIS = "KSTREAM-OUTERTHIS-"
STREAM_OUTER_OTHER = "KSTREAM-OUTEROTHER-"
STREAM_OUTER_SHARED = "KSTREAM-OUTERSHARED-"
TABLE_SOURCE = "KTABLE-SOURCE-"
TABLE_TO_STREAM = "KTABLE-TOSTREAM-"
TABLE_FILTER = "KTABLE-FILTER-"
TABLE_MAP_VALUES = "KTABLE-MAPVALUES-"
TABLE_TRANSFORM_VALUES = "KTABLE-TRANSFORMVALUES-"
TABLE_JOIN_THIS = "KTABLE-JOINTHIS-"
TABLE_JOIN_OTHER = "KTABLE-JOINOTHER-"
TABLE_MERGE = "KTABLE-MERGE-"
TABLE_SELECT = "KTABLE-SELECT-"
TABLE_SINK = "KTABLE-SINK-"
FOREIGN_KEY_JOIN_SUBSCRIPTION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
FOREIGN_KEY_JOIN_STORE = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
FOREIGN_KEY_JOIN_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
FOREIGN_KEY_JOIN_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
FOREIGN_KEY_JOIN_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
FOREIGN_KEY_JOIN_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"
TABLE_AGGREGATE = "KTABLE-AGGREGATE-"
TABLE_REDUCE = "KTABLE-REDUCE-"
TABLE_SUPPRESS = "KTABLE-SUPPRESS-"
STATE_STORE = "STATE-STORE-"

REPARTITION_SUFFIX = "-repartition"
FOREIGN_KEY_TOPIC_SUFFIX = "-topic"
TABLE_SOURCE_SUFFIX = "-source"
JOIN_STORE_SUFFIX = "-store"
BUFFER_SUFFIX = "-Buffer"
SUPPRESS_STORE_SUFFIX = "-store"

_LONGEST_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_GENERATED_STORE_NAME = re.compile(
    r".*STATE-STORE-[0-9]{10}|KSTREAM-(JOINTHIS|JOINOTHER|OUTERTHIS|OUTEROTHER|OUTERSHARED)-[0-9]{10}-store"
)
_GENERATED_STREAM_NAME = re.compile(r"KSTREAM.*-[0-9]{10}")


def check_name(name: str, *, what: str) -> str:
    """``name``, if it can be part of a topic name.

    Args:
        name: the name to check.
        what: what it names, for the message: ``"store"``, ``"topic"``.

    Raises:
        TopologyError: it is empty, too long, ``.`` or ``..``, or holds another character than ``a-z A-Z 0-9 . _ -``.
    """
    if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", "..") or len(name) > _LONGEST_NAME:
        raise TopologyError(
            f"{name!r} is not a legal {what} name.",
            remedy=f"use 1 to {_LONGEST_NAME} ASCII letters, digits, '.', '_' and '-'; '.' and '..' are reserved",
        )
    return name


def is_generated_stream_name(name: str) -> bool:
    """Whether ``name`` looks like one that was generated for a stream operator or its store."""
    return _GENERATED_STREAM_NAME.fullmatch(name) is not None


def is_generated_store_name(name: str) -> bool:
    """Whether ``name`` looks like one that was generated for a store."""
    return _GENERATED_STORE_NAME.fullmatch(name) is not None


def repartition_topic_name(prefix: str) -> str:
    """Name, without the application's prefix, of the repartition topic called ``prefix``."""
    return prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
