"""Drivers that are stopped at a random moment of a batch, replaced, and continued, twenty times."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

import psutil
import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.kafka.groups import live_members
from tests.application import Application
from tests.chaos.checker import check_everything_is_committed, check_output, check_stores
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad
from tests.chaos.sleeping import assert_ends_fenced, freeze

ROUNDS = 20
_SEED = 20_261_129
_BATCHES_S = 3.0
"""Within so many seconds the moment lies: some batches long."""


@pytest.mark.long("twenty rounds of drivers that sleep; the default has one")
@pytest.mark.timeout(3_000)
def test_a_driver_that_slept_while_it_was_replaced_never_ends_its_successor(
    broker: EmbeddedBroker,
    prefix: str,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    """Case E06. Each successor is the next to sleep; each works in a state directory of its own, as on another host."""
    moments = random.Random(_SEED)
    config = {"repartition.purge.interval.ms": 500, "commit.interval.ms": 100}
    current = make_killable("build", "driver-0", config=config).start_and_wait()
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        for number in range(1, ROUNDS + 1):
            chaos_for(current).recovered(f"round {number}: records before")
            time.sleep(moments.uniform(0, _BATCHES_S))  # the moment is what is random here, nothing is waited for
            frozen = freeze(current)
            newer = make_killable("build", f"driver-{number}", config=config).start_and_wait()
            for process in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
            reason = assert_ends_fenced(current)
            assert f"process {newer.pid} on" in reason, reason
            chaos_for(newer).recovered(f"round {number}: driver that slept")
            assert newer.is_alive()
            assert "is not in the log any more" not in newer.log
            status = newer.status()
            assert status is not None
            assert status.state == "RUNNING"
            current = newer
        sent = load.stop()
    chaos = chaos_for(current)
    chaos.wait_until_caught_up()
    assert not live_members(current.admin, current.application_id).is_live
    assert current.stop() == 0
    committed = chaos.committed()
    check_output(broker.bootstrap_servers, prefix, sent=sent)
    check_everything_is_committed(current, committed)
    check_stores(current, committed)
