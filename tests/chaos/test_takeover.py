"""Two drivers of one application at once, a zombie of an older topology, and batches that end badly."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from millrace.control.driver_options import ExitCode
from millrace.kafka.broker import EmbeddedBroker
from millrace.task.crash_points import CrashPoint
from tests.application import Application
from tests.chaos.checker import check_output, check_stores
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad

TRANSACTION_TIMEOUT_S = 10


@pytest.mark.timeout(400)
def test_a_newer_driver_takes_over_and_zombies_change_nothing(
    broker: EmbeddedBroker,
    prefix: str,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    """Cases E04 and E06 in a running application.

    The newer driver runs a topology in which every task has another number, so no transactional id of the older one's
    zombie, whose offsets are sent and not committed, is used again for the same task.
    """
    config = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1000}
    older = make_killable("build_behind_another", "older", config=config).start_and_wait()
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        chaos = chaos_for(older)
        chaos.recovered("nothing: first records")
        zombie = chaos.stop_a_worker_at(CrashPoint.OFFSETS_SENT)
        newer = make_killable("build", "newer", config=config).start_and_wait()
        chaos = chaos_for(newer)
        chaos.recovered("older driver alive, its worker stopped with sent offsets; newer topology, empty state")
        zombie.send_signal(signal.SIGCONT)
        assert older.wait_for_exit(60) == ExitCode.FENCED
        slow = chaos.stop_a_worker_at(CrashPoint.INSIDE_TRANSACTION)
        time.sleep(TRANSACTION_TIMEOUT_S + 2)  # the batch is to last longer than its transaction may
        slow.send_signal(signal.SIGCONT)
        chaos.recovered(f"batch of {TRANSACTION_TIMEOUT_S + 2} s, transaction timeout {TRANSACTION_TIMEOUT_S} s")
        sent = load.stop()
    newer.wait_until_caught_up()
    places = newer.inputs()
    before = newer.committed()
    load.send(repeat=100_000)
    load.flush()
    assert newer.wait_for_exit(60) == ExitCode.FAILED
    status = newer.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert f"{prefix}-copy" in status.reason
    committed = newer.committed()
    assert {place: committed[place] for place in places} == {place: before[place] for place in places}
    check_output(broker.bootstrap_servers, prefix, sent=sent)
    check_stores(newer)
