"""Generated scenarios as one application through Spark, killed twice and once without its state afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.parity.real_path.caching import Defined
from tests.parity.real_path.searching import Tally, run_in_spark


def test_what_is_committed_is_what_the_driver_gives(bootstrap_servers: str, tmp_path: Path) -> None:
    seen = Tally()
    run_in_spark(range(100, 114), bootstrap_servers, tmp_path, seen)
    assert seen.scenarios > 7
    assert seen.records[Defined.ORDER] > 50
    assert seen.records[Defined.LAST_VALUES] > 20
