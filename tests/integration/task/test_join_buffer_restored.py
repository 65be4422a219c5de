"""Case J06: two records of one key and time stay in a join's buffer, also when it is restored from its changelog."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.parity.real_path.tasks import ScenarioOnBroker
from tests.parity.scenario import Scenario

SCENARIO: Scenario = {
    "topology": [
        {"op": "stream", "as": "left", "topics": ["in"]},
        {"op": "stream", "as": "right", "topics": ["other"]},
        {
            "op": "stream_join",
            "as": "joined",
            "on": "left",
            "with": "right",
            "kind": "inner",
            "fn": "left|right",
            "before": 10,
            "after": 10,
            "grace": 10,
            "buffers": "buffers",
        },
        {"op": "to", "on": "joined", "topic": "out"},
    ],
    "input": [
        ["in", "k", '{"user":"a","amount":1}', 5],
        ["in", "k", '{"user":"b","amount":2}', 5],
        ["other", "k", '{"user":"x","amount":3}', 6],
    ],
    "settings": [],
}


class EveryTime(Random):
    """Each record is a batch of its own, before which the task restarts without its state."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


def test_j06_both_records_meet_their_partner_after_the_state_was_lost(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    run = ScenarioOnBroker(SCENARIO, bootstrap_servers, unique, tmp_path, EveryTime(), in_columns=False)
    try:
        found = run.run()["out"]
    finally:
        run.delete_topics()
    assert run.restarts == 3
    assert sorted(json.loads(record.value or b"") for record in found) == ["1|3", "2|3"]
    assert {(record.key, record.timestamp) for record in found} == {(b"k", 6)}
