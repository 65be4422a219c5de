"""What was committed to output topics against what the test driver gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.parity.comparing import as_text
from tests.parity.real_path.caching import Defined, defined_outputs, without_caching
from tests.parity.scenario import Form, Scenario, run_in_millrace
from tests.records import ReadRecord

Rows = list[list[Any]]


def expected_of(scenario: Scenario) -> dict[str, Rows]:
    """What the test driver gives without caches, by topic."""
    found: dict[str, Rows] = run_in_millrace(without_caching(scenario), Form.CALLABLES)["topics"]
    return found


def differences(scenario: Scenario, expected: dict[str, Rows], committed: dict[str, list[ReadRecord]]) -> str:
    """What of the output is not as it must be, for people; empty if all is."""
    found = []
    for topic, output in defined_outputs(scenario).items():
        ours, wanted = rows_of(committed[topic]), expected.get(topic, [])
        if output.defined is Defined.LAST_VALUES:
            if last_values(ours) != last_values(wanted):
                found.append(f"{topic}, last values:\n{last_values(ours)} !=\n{last_values(wanted)}")
        elif output.defined is Defined.ORDER and ours != wanted:
            found.append(f"{topic}:\n{ours} !=\n{wanted}")
    return "\n".join([*found, as_text(scenario)]) if found else ""


def compared(scenario: Scenario, committed: dict[str, list[ReadRecord]]) -> Counter[Defined]:
    """How many records of the output are held to what."""
    return sum(
        (Counter({output.defined: len(committed[topic])}) for topic, output in defined_outputs(scenario).items()),
        Counter(),
    )


def rows_of(records: list[ReadRecord]) -> Rows:
    """Records in the form of a scenario's results."""
    rows = []
    for record in records:
        row: list[Any] = [
            None if record.key is None else record.key.hex(),
            None if record.value is None else record.value.hex(),
            record.timestamp,
        ]
        headers = [f"{name}={(value or b'').decode()}" for name, value in record.headers or []]
        rows.append([*row, headers] if headers else row)
    return rows


def last_values(rows: Rows) -> dict[str | None, str]:
    """The last value of each key that has one: a cache leaves out the deletion of a row that came and went with it."""
    last = {row[0]: row[1] for row in rows}
    return {key: value for key, value in last.items() if value is not None}
