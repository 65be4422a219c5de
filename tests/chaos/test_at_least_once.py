"""At least once: what is killed may come twice, and is never missing."""

from __future__ import annotations

from collections.abc import Callable

from millrace.embedded.broker import EmbeddedBroker
from millrace.task.crash_points import CrashPoint
from tests.application import Application
from tests.chaos.checker import check_everything_is_committed, check_output_has_everything, check_stores
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad

POINTS_OF_A_TASK = [
    CrashPoint.BEFORE_PROCESSING,
    CrashPoint.RECORDS_SENT,
    CrashPoint.AFTER_COMMIT,
    CrashPoint.AFTER_STORE_WRITE,
]


def test_nothing_is_lost_whatever_is_killed(
    broker: EmbeddedBroker,
    prefix: str,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    application = make_killable(config={"processing.guarantee": "at_least_once"}).start_and_wait()
    chaos = chaos_for(application)
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        for point in POINTS_OF_A_TASK:
            chaos.die_at(point)
            chaos.recovered(f"at least once: worker at {point}")
        chaos.kill_broker()
        chaos.recovered("at least once: broker")
        chaos.kill_driver()
        chaos.recovered("at least once: driver")
        sent = load.stop()
    chaos.wait_until_caught_up()
    assert application.stop() == 0
    committed = chaos.committed()
    repeated = check_output_has_everything(broker.bootstrap_servers, prefix, sent=sent)
    assert repeated, "a worker died between sending and committing, so its records must have come again"
    check_everything_is_committed(application, committed)
    check_stores(application, committed)
