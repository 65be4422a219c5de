"""Generated scenarios as one application through Spark, killed twice and once without its state afterwards.

``python -m tests.parity.real_path.run --spark`` runs more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.real_path.caching import Defined
from tests.parity.real_path.searching import Tally, run_in_spark

SCENARIOS = 8


@pytest.mark.long(
    "eight scenarios through Spark; tests/integration/task/test_scenarios_on_broker.py kills tasks in them"
)
def test_what_is_committed_is_what_the_driver_gives(bootstrap_servers: str, tmp_path: Path) -> None:
    seen = Tally()
    run_in_spark(100, SCENARIOS, bootstrap_servers, tmp_path, seen)
    assert seen.scenarios == SCENARIOS
    assert seen.records[Defined.ORDER] > 10
    assert seen.records[Defined.LAST_VALUES] > 10
