"""What keeps a running application from committing is seen within seconds, as what it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import psutil

from millrace.driver.health import Health, HealthLimits, HealthReason, assess
from millrace.embedded.broker import EmbeddedBroker
from millrace.install.launchers.session import stopped_processes
from millrace.kafka.producer import TaskProducer
from tests.application import Application, wait_until
from tests.chaos.kills import Chaos
from tests.chaos.load import SteadyLoad

SECONDS = 20.0
"""How long each may take on a busy machine; it is a few on a quiet one."""


def test_what_keeps_an_application_from_committing_is_seen_within_seconds(
    broker: EmbeddedBroker,
    prefix: str,
    make_killable: Callable[..., Application],
    chaos_for: Callable[[Application], Chaos],
) -> None:
    application = make_killable("build").start_and_wait()
    with SteadyLoad(broker.bootstrap_servers, f"{prefix}-in") as load:
        chaos_for(application).recovered("nothing: first records")
        load.stop()
    chaos_for(application).wait_until_caught_up()
    wait_until(
        lambda: health(application).progressing, timeout_s=SECONDS, is_claim=True, what="an application that is well"
    )

    held_back(application, broker, f"{prefix}-in")

    (worker, *_) = (psutil.Process(pid) for pid in application.workers())
    worker.suspend()
    try:
        assert [pid for pid, _ in stopped_processes(application.pid)] == [worker.pid]
    finally:
        worker.resume()
    assert stopped_processes(application.pid) == []

    broker.kill()
    begin, computed = time.monotonic(), computed_by(application.pid)
    wait_until(
        lambda: health(application).reason is HealthReason.BROKER_UNREACHABLE,
        timeout_s=SECONDS,
        is_claim=True,
        what="a broker that does not answer",
    )
    assert "the last commit was" in health(application).text
    age = time.time() - application.metric("millrace_stream_broker_last_answer_timestamp_seconds")
    assert 3 < age < 60
    share = (computed_by(application.pid) - computed) / (time.monotonic() - begin)
    assert share < 0.3, "a driver that waits for its broker leaves the cores to others"
    broker.start()
    wait_until(lambda: health(application).progressing, timeout_s=60, what="an answer of the broker")


def computed_by(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    return sum(psutil.Process(pid).cpu_times()[:2])


def held_back(application: Application, broker: EmbeddedBroker, topic: str) -> None:
    """Upstream leaves a transaction open, then ends it."""
    with TaskProducer(broker.bootstrap_servers, transactional_id=f"{topic}-upstream") as upstream:
        upstream.init()
        upstream.begin()
        upstream.send(topic, [b"k"], [b'{"n": 1, "repeat": 1}'], np.zeros(1, np.int64), partition=0)
        upstream.flush()
        end = application.wait_for(
            lambda status: status.held_back.get((topic, 0)),
            timeout_s=SECONDS,
            is_claim=True,
            what="a reader that is held back",
        )
        assert end
        status = application.status()
        assert status is not None
        ends = status.input_ends[topic][0]
        assert ends.high_watermark > ends.last_stable
        assert status.total_lag == 0, "it is measured to the last stable offset"
        later = assess(status, now=time.time() + 60, limits=HealthLimits(heartbeat_s=600, broker_s=600))
        assert later.reason is HealthReason.HELD_BACK
        assert f"{topic}-0" in later.text
        labels = {"topic": topic, "partition": "0"}
        assert application.metric("millrace_consumer_held_back_seconds", **labels) > 0
        assert application.metric("millrace_consumer_high_watermark", **labels) == ends.high_watermark
        assert application.metric("millrace_consumer_last_stable_offset", **labels) == ends.last_stable
        upstream.abort()
    application.wait_for(
        lambda status: not status.held_back, timeout_s=SECONDS, is_claim=True, what="a reader that goes on"
    )


def health(application: Application) -> Health:
    """As an operator sees it now."""
    status = application.status()
    assert status is not None
    return assess(status, now=time.time(), limits=HealthLimits())
