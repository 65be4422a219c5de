"""Compares a scenario's results, and writes scenarios down so that they can be run again."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from millrace.task.operators.windows.session_aggregating import SessionAggregateProcessor
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.scenario import Form, Result, Scenario, build, compare_buffers, run_in_millrace
from tests.parity.scenario_topology import is_order_defined

_MOST_LINES = 60


def forms_of(scenario: Scenario) -> list[Form]:
    """The forms whose result is defined for a scenario."""
    in_batches = is_order_defined(build({**scenario, "settings": []}, in_columns=False))
    return [form for form in Form if in_batches or not form.in_batches]


@dataclass(frozen=True)
class Difference:
    """What differs.

    Args:
        kind: what stops, or where the results differ: shrinking must not turn one kind into another.
        text: for people.
    """

    kind: str
    text: str


def difference(scenario: Scenario, kafka_streams: KafkaStreams) -> Difference | None:
    """What our results have that those of Kafka Streams have not, and the other way round; ``None`` if nothing."""
    receive = kafka_streams.submit(scenario)
    try:
        ours = _outcomes(scenario)
    finally:
        theirs = receive()
    if "error" in theirs:
        return Difference(
            "Kafka Streams: " + theirs["error"].partition("\n")[0], f"Kafka Streams stops: {theirs['error']}"
        )
    compare_buffers(scenario, theirs["topics"])
    for form, result in ours.items():
        if "error" in result:
            return Difference(
                "we: " + result["error"].splitlines()[-1], f"we stop in the form {form.name}: {result['error']}"
            )
        if result != theirs:
            lines = list(_lines("", result, theirs))
            more = [f"... and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
            text = "\n".join([f"in the form {form.name}, ours first:", *lines[:_MOST_LINES], *more])
            return Difference(lines[0].split("/")[1].split(":")[0], text)
    return None


def as_text(scenario: Scenario) -> str:
    """A scenario as JSON, a step or record a line."""
    parts = []
    for name, value in scenario.items():
        if isinstance(value, list) and value:
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            parts.append(f"  {json.dumps(name)}: [\n{rows}\n  ]")
        else:
            parts.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _outcomes(scenario: Scenario) -> dict[Form, Result]:
    try:
        forms = forms_of(scenario)
    except Exception:
        return {Form.CALLABLES: {"error": traceback.format_exc()}}
    return {form: _outcome(scenario, form) for form in forms}


def _outcome(scenario: Scenario, form: Form) -> Result:
    # Kafka Streams does not say what was sent of a session of one point before: tests of our own hold that we do.
    forgotten = patch.object(SessionAggregateProcessor, "_old_result_of_point", lambda processor, session: None)
    try:
        with forgotten:
            return run_in_millrace(scenario, form)
    except Exception:
        return {"error": traceback.format_exc()}


def _lines(place: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            yield from _lines(f"{place}/{name}", ours.get(name), theirs.get(name))
    elif isinstance(ours, list) and isinstance(theirs, list):
        for row in range(max(len(ours), len(theirs))):
            yield from _lines(f"{place}[{row}]", *(rows[row] if row < len(rows) else None for rows in (ours, theirs)))
    else:
        yield f"{place}: {ours!r} != {theirs!r}"
