"""The demo's verdict."""

from __future__ import annotations

import json

from apps.fraud_model import Alert, LoggedPayment
from demo.comparison import Comparison, compare

START = 1_700_000_100_000


def payment(offset: int, cents: int, *, partition: int = 0) -> LoggedPayment:
    document = {"payment_id": f"p{offset}", "account": "a", "amount_cents": cents, "currency": "EUR", "country": "DE"}
    return LoggedPayment(partition, offset, START + offset, b"a", json.dumps(document).encode())


SENT = [payment(0, 150_000), payment(1, 150_000), LoggedPayment(0, 2, START, b"a", b"{")]
ALERT = Alert("a", START, START + 300_000, 300_000, 2, "p1")


def judged(
    committed: dict[int, int], alerts: list[Alert], *, dead_letters: int, acknowledged: int = len(SENT)
) -> Comparison:
    return compare(SENT, committed, alerts, acknowledged=acknowledged, dead_letters=dead_letters)


def test_all_alerts_once_each_is_right() -> None:
    result = judged({0: 3}, [ALERT], dead_letters=1)
    assert result.ok
    assert "EXACTLY ONCE" in result.lines()[-1]
    assert (result.payments, result.poison, result.expected, result.read) == (3, 1, 1, 1)


def test_a_lost_alert_is_a_difference() -> None:
    result = judged({0: 3}, [], dead_letters=1)
    assert not result.ok
    assert result.missing == (ALERT,)
    assert any("p1" in line for line in result.lines())


def test_an_alert_that_came_twice_is_a_difference() -> None:
    result = judged({0: 3}, [ALERT, ALERT], dead_letters=1)
    assert not result.ok
    assert result.unexpected == (ALERT,)


def test_a_wrong_alert_is_both_missing_and_unexpected() -> None:
    wrong = Alert("a", START, START + 300_000, 300_001, 2, "p1")
    result = judged({0: 3}, [wrong], dead_letters=1)
    assert (result.missing, result.unexpected) == ((ALERT,), (wrong,))


def test_a_lost_dead_letter_is_a_difference() -> None:
    assert not judged({0: 3}, [ALERT], dead_letters=0).ok


def test_payments_that_were_not_processed_are_no_success_although_the_alerts_fit() -> None:
    result = judged({0: 1}, [], dead_letters=0)
    assert (result.unprocessed, result.expected) == (2, 0)
    assert not result.ok


def test_a_payment_that_is_not_in_its_topic_is_a_difference() -> None:
    result = judged({0: 3}, [ALERT], dead_letters=1, acknowledged=4)
    assert not result.ok
    assert any(line.split()[:2] == ["acknowledged", "4"] for line in result.lines())
