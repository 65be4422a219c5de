"""Generated scenarios through real tasks: whatever restarts and cuts there are, what is committed is the driver's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.parity.comparing import as_text
from tests.parity.generating import generate
from tests.parity.on_broker import ScenarioOnBroker, for_broker
from tests.parity.scenario import Form, run_in_millrace
from tests.records import ReadRecord

SCENARIOS_OF_A_TEST = 6
FIRST_SEEDS = (500, 1022)


def _rows(records: list[ReadRecord]) -> list[list[Any]]:
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first_seed", FIRST_SEEDS)
def test_what_is_committed_is_what_the_driver_gives(
    bootstrap_servers: str, unique: str, tmp_path: Path, first_seed: int
) -> None:
    seen: Counter[str] = Counter()
    seed, done = first_seed, 0
    while done < SCENARIOS_OF_A_TEST:
        random = Random(seed)
        scenario = for_broker(generate(seed), random)
        seed += 1
        if scenario is None:
            continue
        done += 1
        expected = run_in_millrace(scenario, Form.CALLABLES)["topics"]
        run = ScenarioOnBroker(
            scenario, bootstrap_servers, f"{unique}-{seed}", tmp_path, random, in_columns=seed % 2 == 0
        )
        try:
            found = run.run()
        finally:
            run.delete_topics()
        for topic, records in found.items():
            assert _rows(records) == expected.get(topic, []), f"seed {seed - 1}, topic {topic}: {as_text(scenario)}"
            seen["records"] += len(records)
        seen["restarts"] += run.restarts
    assert seen["records"] > 20
    assert seen["restarts"] > 2
