"""The generator of payments."""

from __future__ import annotations

import itertools
from collections import Counter

from apps.fraud_model import LoggedPayment, expected
from apps.payments import Mix, generate

NOW = 1_700_000_000_000


def test_the_same_seed_and_clock_give_the_same_payments() -> None:
    def some(seed: int) -> list[object]:
        return list(itertools.islice(generate(seed, lambda: NOW), 200))

    assert some(3) == some(3)
    assert some(3) != some(4)


def test_few_accounts_make_most_payments() -> None:
    payments = list(itertools.islice(generate(1, lambda: NOW), 5000))
    counts = Counter(payment.key for payment in payments)
    busiest = sum(count for _, count in counts.most_common(10))
    assert busiest > len(payments) / 2
    assert len(counts) > 200


def test_a_mix_holds_its_shares() -> None:
    mix = Mix(out_of_order=0.2, late=0.1, poison=0.05)
    payments = list(itertools.islice(generate(1, lambda: NOW, mix), 5000))
    ages = [NOW - payment.timestamp for payment in payments]
    assert 0.15 < sum(0 < age < 30_000 for age in ages) / len(ages) < 0.25
    assert 0.07 < sum(age >= 360_000 for age in ages) / len(ages) < 0.13
    log = [
        LoggedPayment(0, offset, payment.timestamp, payment.key, payment.value)
        for offset, payment in enumerate(payments)
    ]
    assert 0.03 < expected(log).poison / len(log) < 0.07
