"""Fraud detection against its independent model, in the test driver."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from apps import fraud_detection, fraud_model
from apps.fraud_model import Alert, LoggedPayment
from apps.payments import Mix, Payment, generate
from millrace.dsl import StreamsBuilder
from millrace.install.spec import load_spec
from millrace.metrics.definitions import DropReason
from millrace.serdes import BytesSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from tests.unit.apps.places import REPOSITORY

DEAD_LETTERS = "payments-dead-letters"
SETTINGS = {
    "deserialization.exception.handler": "continue",
    "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
}
START = 1_700_000_100_000  # a multiple of five minutes


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    fraud_detection.build(builder)
    with TopologyTestDriver(builder.build(ensure_explicit_naming=True), SETTINGS) as opened:
        yield opened


def run(driver: TopologyTestDriver, payments: Sequence[Payment], cuts: random.Random | None = None) -> list[Alert]:
    """Pipes the payments in batches of random sizes (one batch without ``cuts``) and reads the alerts."""
    topic = driver.create_input_topic(fraud_detection.PAYMENTS, BytesSerde(), BytesSerde())
    records = iter([TestRecord(payment.key, payment.value, payment.timestamp) for payment in payments])
    while batch := list(itertools.islice(records, cuts.randint(1, 60) if cuts else len(payments))):
        topic.pipe_batch(batch)
    alerts = driver.create_output_topic(fraud_detection.ALERTS, StringSerde(), fraud_detection.ALERT)
    return [Alert(**value) for _, value in alerts.read_key_values()]


def logged(payments: Sequence[Payment]) -> list[LoggedPayment]:
    return [
        LoggedPayment(0, offset, payment.timestamp, payment.key, payment.value)
        for offset, payment in enumerate(payments)
    ]


def payment(account: str | None, cents: int | None, timestamp: int, *, number: int | None = 1) -> Payment:
    document: dict[str, Any] = {
        "payment_id": None if number is None else f"p{number}",
        "account": account,
        "amount_cents": cents,
        "currency": "EUR",
        "country": "DE",
    }
    return Payment(None if account is None else account.encode(), json.dumps(document).encode(), timestamp)


def generated(seed: int, count: int, *, step_ms: int = 400) -> list[Payment]:
    """A stream of some windows, with far more of everything unusual than a real one has."""
    clock = itertools.count(START, step_ms)
    mix = Mix(accounts=12, out_of_order=0.3, late=0.05, poison=0.03, refunds=0.1)
    return list(itertools.islice(generate(seed, lambda: next(clock), mix), count))


@pytest.mark.parametrize("seed", range(12))
def test_alerts_equal_the_independent_model_however_the_stream_is_cut(driver: TopologyTestDriver, seed: int) -> None:
    payments = generated(seed, 3000)
    expectation = fraud_model.expected(logged(payments))
    assert run(driver, payments, random.Random(seed)) == expectation.alerts
    assert len(expectation.alerts) >= 5
    assert driver.dropped[DropReason.LATE] == expectation.late > 0
    assert driver.dropped[DropReason.DESERIALIZATION] == expectation.poison > 0


def test_an_account_gets_one_alert_for_each_window_in_which_it_crosses_the_limit(driver: TopologyTestDriver) -> None:
    spending = [payment("a", 150_000, START + second * 1000, number=second) for second in range(0, 600, 60)]
    alerts = run(driver, spending)
    assert alerts == [
        Alert("a", START, START + 300_000, 300_000, 2, "p60"),
        Alert("a", START + 300_000, START + 600_000, 300_000, 2, "p360"),
    ]
    assert alerts == fraud_model.expected(logged(spending)).alerts


def test_spending_exactly_the_limit_is_no_alert_and_one_cent_more_is(driver: TopologyTestDriver) -> None:
    assert run(driver, [payment("a", 200_000, START)]) == []
    assert [alert.total_cents for alert in run(driver, [payment("a", 1, START + 1)])] == [200_001]


def test_a_payment_within_the_grace_period_still_counts_and_one_at_its_end_does_not(
    driver: TopologyTestDriver,
) -> None:
    end = START + 300_000
    on_time = [payment("a", 200_000, START), payment("b", 1, end + 59_999), payment("a", 1, START + 1)]
    assert [alert.account for alert in run(driver, on_time)] == ["a"]
    assert run(driver, [payment("b", 1, end + 60_000), payment("c", 300_000, START + 2)]) == []
    assert driver.dropped[DropReason.LATE] == 1


def test_what_is_no_spending_neither_counts_nor_moves_time(driver: TopologyTestDriver) -> None:
    far = START + 3_600_000
    nothing = [
        payment("a", -1, far),
        payment("a", 0, far),
        payment("a", None, far),
        payment("a", 1, far, number=None),
        payment(None, 1, far),
    ]
    payments = [*nothing, payment("a", 300_000, START, number=2)]
    alerts = run(driver, payments)
    assert [alert.payment_id for alert in alerts] == ["p2"]
    assert alerts == fraud_model.expected(logged(payments)).alerts


def test_a_poison_message_goes_to_the_dead_letter_topic_and_the_rest_goes_on(driver: TopologyTestDriver) -> None:
    alerts = run(driver, [Payment(b"a", b"not json at all", START), payment("a", 300_000, START)])
    assert len(alerts) == 1
    [record] = driver.create_output_topic(DEAD_LETTERS, BytesSerde(), BytesSerde()).read_records()
    assert (record.key, record.value) == (b"a", b"not json at all")
    assert dict(record.headers)["__streams.errors.topic"] == b"payments"


def test_the_model_tells_time_by_partition() -> None:
    later = payment("b", 1, START + 3_600_000)
    payments = [
        LoggedPayment(0, 0, later.timestamp, later.key, later.value),
        LoggedPayment(1, 0, START, b"a", payment("a", 300_000, START).value),
        LoggedPayment(0, 1, START, b"c", payment("c", 300_000, START).value),
    ]
    result = fraud_model.expected(payments)
    assert [alert.account for alert in result.alerts] == ["a"]
    assert result.late == 1


def test_the_specification_is_valid_and_names_the_topics_that_the_topology_uses() -> None:
    spec = load_spec(REPOSITORY / "config" / "apps" / "fraud-detection.yaml", environment={})
    declared = {topic.name for topic in spec.topics}
    assert declared == {fraud_detection.PAYMENTS, fraud_detection.ALERTS, DEAD_LETTERS}
    assert {key: spec.config[key] for key in SETTINGS} == SETTINGS
    assert spec.module == "apps.fraud_detection:build"
