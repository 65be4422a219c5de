"""Names of nodes, stores and internal topics: what is legal, and the prefixes of the generated ones.

Generated names follow Kafka Streams (a prefix and a ten-digit counter), so that stores and internal topics of a
topology written for it keep their names here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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

LONGEST_TOPIC_NAME = 249
"""Characters; the broker makes directories and metrics of the name."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_GENERATED_STORE_NAME = re.compile(
    r".*STATE-STORE-[0-9]{10}|KSTREAM-(JOINTHIS|JOINOTHER|OUTERTHIS|OUTEROTHER|OUTERSHARED)-[0-9]{10}-store"
)
_GENERATED_STREAM_NAME = re.compile(r"KSTREAM.*-[0-9]{10}")


def problem_of_name(name: object) -> str:
    """Returns why a broker would refuse ``name`` for a topic: ``has 291 characters, and ...``; else empty."""
    if not isinstance(name, str):
        return "is no text"
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is reserved"
    if len(name) > LONGEST_TOPIC_NAME:
        return f"has {len(name)} characters, and the limit is {LONGEST_TOPIC_NAME}"
    if illegal := sorted(set(_ILLEGAL.findall(name))):
        return f"has characters that are not legal: {' '.join(map(repr, illegal))}"
    return ""


def check_name(name: str, *, what: str) -> str:
    """Returns ``name``, if it can be part of a topic name.

    Args:
        name: the name to check.
        what: what it names, for the message: ``"store"``, ``"topic"``.

    Raises:
        TopologyError: it is empty, too long, ``.`` or ``..``, or holds another character than ``a-z A-Z 0-9 . _ -``.
    """
    if problem := problem_of_name(name):
        raise TopologyError(
            f"{name!r} is not a legal {what} name: it {problem}.",
            remedy=f"use 1 to {LONGEST_TOPIC_NAME} ASCII letters, digits, '.', '_' and '-'; '.' and '..' are reserved",
        )
    return name


def colliding_names(
    wanted: Iterable[str], existing: Iterable[str] = (), *, owners: Mapping[str, str] | None = None
) -> list[str]:
    """Pairs of topics of which a broker takes one only, in words: names that differ in ``.`` and ``_``.

    Args:
        wanted: names of topics that are to be there.
        existing: names of topics that are there.
        owners: what the topics belong to, as far as that is to be said.
    """
    of = {name: f" (the topic of {owner})" for name, owner in (owners or {}).items()}
    known = {name.replace(".", "_"): name for name in existing}
    there = set(known.values())
    found = []
    for name in wanted:
        other = known.setdefault(name.replace(".", "_"), name)
        if other != name:
            found.append(
                f"{name}{of.get(name, '')} and {other}{', which exists' if other in there else of.get(other, '')}"
            )
    return found


def is_generated_stream_name(name: str) -> bool:
    """Returns whether ``name`` looks like one that was generated for a stream operator or its store."""
    return _GENERATED_STREAM_NAME.fullmatch(name) is not None


def is_generated_store_name(name: str) -> bool:
    """Returns whether ``name`` looks like one that was generated for a store."""
    return _GENERATED_STORE_NAME.fullmatch(name) is not None


def repartition_topic_name(prefix: str) -> str:
    """Returns the name, without the application's prefix, of the repartition topic called ``prefix``."""
    return prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
