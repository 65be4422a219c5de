"""Fraud detection from payments to alerts, over a restart without its state, against a model that shares nothing."""

from __future__ import annotations

import itertools
import json
import shutil

from apps.fraud_model import Alert, Expectation, LoggedPayment, expected
from apps.payments import Mix, generate
from tests.application import Application
from tests.integration.spark.conftest import World
from tests.records import Record

PAYMENTS = 6_000
START = 1_700_000_000_000
PARTITIONS = 4


def test_alerts_equal_the_model_s_over_a_restart_without_the_state(world: World) -> None:
    world.create("payments", "fraud-alerts", partitions=PARTITIONS)
    world.create("dead-letters")
    application = world.application(
        "fraud",
        config={
            "ensure.explicit.internal.resource.naming": True,
            "deserialization.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": world.name("dead-letters"),
        },
    )
    send_payments(world, seed=1, begin=START)
    application.start_and_wait()
    send_payments(world, seed=2, begin=START + 600_000)
    application.wait_until_caught_up()
    first = check(world)
    assert application.metric("millrace_stream_task_dropped_records_total", reason="late") == first.late
    assert application.metric("millrace_stream_task_dead_letters_total") == first.poison

    assert application.stop() == 0
    shutil.rmtree(application.state_directory)
    send_payments(world, seed=3, begin=START + 900_000)
    application.start_and_wait()
    application.wait_until_caught_up()
    second = check(world)
    assert len(second.alerts) > len(first.alerts) > 0
    assert_lag_is_zero(application)
    assert application.stop() == 0


def send_payments(world: World, *, seed: int, begin: int) -> None:
    """Payments of five minutes, a twentieth of a second apart: skewed, out of order, some late, some poison."""
    clock = itertools.count(begin, 50)
    mix = Mix(accounts=300, late=0.02, poison=0.01)
    payments = itertools.islice(generate(seed, lambda: next(clock), mix), PAYMENTS)
    world.send("payments", *(Record(payment.key, payment.value, payment.timestamp) for payment in payments))


def check(world: World) -> Expectation:
    """The alerts and the dead-letter records are those of the model; the order within a partition too."""
    log = [
        LoggedPayment(record.partition, record.offset, record.timestamp, record.key, record.value)
        for record in world.read("payments")
    ]
    model = expected(log)
    assert model.late > 0
    assert model.poison > 0
    alerts = [Alert(**json.loads(record.value or b"")) for record in world.read("fraud-alerts")]
    assert alerts == model.alerts
    places = sorted(
        (
            int(dict(record.headers or [])["__streams.errors.partition"] or b""),
            int(dict(record.headers or [])["__streams.errors.offset"] or b""),
        )
        for record in world.read("dead-letters")
    )
    assert len(places) == model.poison
    assert len(set(places)) == model.poison
    return model


def assert_lag_is_zero(application: Application) -> None:
    application.wait_for(lambda status: status.total_lag == 0, timeout_s=15, what="lag 0")
