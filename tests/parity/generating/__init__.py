"""Random scenarios over the operators of the format.

To let another operator take part, write a function with ``@operator(...)`` (see ``streams.py``) and import its module
below: everything else (choosing it, input around its limits, the comparison, shrinking) follows.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.parity.generating import (
    aggregations,
    cogroups,
    foreign_keys,
    global_tables,
    sinks,
    stream_joins,
    streams,
    suppressing,
    tables,
    windowed_tables,
)
from tests.parity.generating.choices import Choices, DrawnChoices, RandomChoices
from tests.parity.generating.draft import OPERATORS, Draft, Kind
from tests.parity.generating.functions import HANDLED
from tests.parity.generating.records import records
from tests.parity.generating.streams import open_streams
from tests.parity.generating.tables import open_table
from tests.parity.scenario import Scenario

__all__ = [
    "aggregations",
    "cogroups",
    "foreign_keys",
    "global_tables",
    "sinks",
    "stream_joins",
    "streams",
    "suppressing",
    "tables",
    "windowed_tables",
]
__all__ += ["generate", "scenarios"]

_LONGEST_CHAIN = 6
_MOST_ENDS = 3
_CHAINED = tuple(kind for kind in Kind if kind is not Kind.GLOBAL_TABLE)
_POISON = "continue after deserialization errors"
_SELDOM = (
    "dead letters",
    "single store self join",
    "reuse source topic",
    "merge repartition topics",
    "null results at most once a second",
)


def scenarios() -> st.SearchStrategy[Scenario]:
    """Scenarios that hypothesis draws and shrinks."""
    return st.composite(lambda draw: _scenario(DrawnChoices(draw)))()


def generate(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _scenario(RandomChoices(seed))


def _scenario(choices: Choices) -> Scenario:
    draft = Draft(choices)
    draft.settings += [name for name in (_POISON, HANDLED) if draft.chance(20)]
    draft.settings += [name for name in _SELDOM if draft.chance(10)]
    open_streams(draft)
    for _ in range(draft.choose([0, 1, 1, 2])):
        open_table(draft)
    latest = draft.of(Kind.STREAM)[0]
    for _ in range(draft.between(1, _LONGEST_CHAIN)):
        latest = _extend(draft, latest)
    _finish(draft, latest)
    return {
        "topology": draft.steps,
        "input": records(draft, poison=_POISON in draft.settings),
        "settings": draft.settings,
    }


def _extend(draft: Draft, latest: str) -> str:
    """Appends an operator, more often than not to the newest stream or table; the name of what it leaves behind."""
    on = latest if draft.chance(65) else draft.choose(draft.of(*_CHAINED))
    fitting = [made for made in OPERATORS if draft.kind(on) in made.on and made.when(draft)]
    draft.choose([made for made in fitting for _ in range(made.weight)]).add(draft, on)
    return draft.of(*_CHAINED)[-1]


def _finish(draft: Draft, latest: str) -> None:
    """Writes the newest result and perhaps some others to topics."""
    kinds = {Kind.TABLE: Kind.STREAM, Kind.WINDOWED_TABLE: Kind.WINDOWED_STREAM}
    ends = [latest]
    for _ in range(draft.between(0, _MOST_ENDS - 1)):
        end = draft.choose(draft.of(*_CHAINED))
        if end not in ends:
            ends.append(end)
    for end in ends:
        stream = kinds.get(draft.kind(end))
        sinks.write(draft, end if stream is None else draft.add("to_stream", stream, on=end))
