"""Two drivers of one application at once, a zombie of an older topology, and batches that end badly."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil

from millrace.driver.driver_options import ExitCode
from millrace.embedded.broker import EmbeddedBroker
from millrace.task.crash_points import CrashPoint
from tests.application import Application
from tests.chaos.checker import check_output, check_stores
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad
from tests.chaos.sleeping import assert_ends_fenced, freeze

TRANSACTION_TIMEOUT_S = 3
SLOW_BATCH_S = 4.5


def test_a_newer_driver_takes_over_and_zombies_change_nothing(
    broker: EmbeddedBroker,
    prefix: str,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    """Cases E04 and E06 in a running application.

    The older driver is frozen with all its workers while one of them has sent offsets and not committed them. The newer
    one runs a topology in which every task has another number, so it would never use that worker's transactional id.
    """
    config = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1000}
    older = make_killable("build_behind_another", "older", config=config).start_and_wait()
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        chaos = chaos_for(older)
        chaos.recovered("nothing: first records")
        chaos.stop_a_worker_at(CrashPoint.OFFSETS_SENT)
        frozen = freeze(older)
        newer = make_killable("build", "newer", config=config).start_and_wait()
        chaos = chaos_for(newer)
        chaos.recovered("frozen driver with sent offsets; renumbered topology, empty state, after its start")
        for process in frozen:
            process.resume()
        assert_ends_fenced(older)
        slow = chaos.stop_a_worker_at(CrashPoint.INSIDE_TRANSACTION)
        time.sleep(SLOW_BATCH_S)  # the batch is to last longer than its transaction may
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker that waited for it may have lost its patience
            slow.resume()
        chaos.recovered(f"batch of {SLOW_BATCH_S} s, transaction timeout {TRANSACTION_TIMEOUT_S} s")
        sent = load.stop()
    chaos.wait_until_caught_up()
    before = chaos.committed()
    load.send(repeat=100_000)
    load.flush()
    assert newer.wait_for_exit(60) == ExitCode.FAILED
    status = newer.published_status()
    assert status is not None
    assert status.state == "ERROR"
    assert f"{prefix}-copy" in status.reason
    assert chaos.committed() == before, "a record that cannot be written is not passed over"
    check_output(broker.bootstrap_servers, prefix, sent=sent)
    check_stores(newer, before)
