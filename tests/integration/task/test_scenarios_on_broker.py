"""Generated scenarios through real tasks: whatever restarts and kills there are, what is committed is the driver's.

``python -m tests.parity.real_path.run`` runs more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.real_path.caching import Defined
from tests.parity.real_path.searching import Tally, run_one, telling_seeds

SCENARIOS_OF_A_TEST = 3


def run_scenarios(first_seed: int, bootstrap_servers: str, directory: Path, *, caching: bool) -> Tally:
    """Runs the first scenarios from a seed on."""
    seen = Tally()
    for seed, scenario in telling_seeds(first_seed, SCENARIOS_OF_A_TEST, caching=caching).items():
        run_one(seed, scenario, bootstrap_servers, directory, seen)
    assert seen.scenarios == SCENARIOS_OF_A_TEST
    assert seen.restarts > 0
    assert seen.kills.total() > 0
    return seen


@pytest.mark.parametrize("first_seed", [500, 1022])
def test_what_is_committed_is_what_the_driver_gives(bootstrap_servers: str, tmp_path: Path, first_seed: int) -> None:
    seen = run_scenarios(first_seed, bootstrap_servers, tmp_path, caching=False)
    assert set(seen.records) == {Defined.ORDER}
    assert seen.records[Defined.ORDER] > 10


@pytest.mark.parametrize("first_seed", [2000, 3000])
def test_with_caches_the_last_value_of_each_key_is_what_the_driver_gives(
    bootstrap_servers: str, tmp_path: Path, first_seed: int
) -> None:
    seen = run_scenarios(first_seed, bootstrap_servers, tmp_path, caching=True)
    assert seen.records[Defined.LAST_VALUES] > 10
