"""The alerts that fraud detection must give, computed from the payments by plain Python.

It shares nothing with the application, not even its constants: what both agree on is what the page about the
application promises. The demo and the tests compare the two.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LIMIT_CENTS = 200_000
WINDOW_MS = 5 * 60 * 1000
GRACE_MS = 60 * 1000

_KINDS = {"payment_id": str, "account": str, "amount_cents": int, "currency": str, "country": str}


@dataclass(frozen=True)
class LoggedPayment:
    """A record of the payments topic.

    Args:
        partition: where it is in the topic.
        offset: where it is in the partition.
        timestamp: event time, milliseconds.
        key: key bytes: the account in UTF-8, or ``None``.
        value: value bytes, or ``None``.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, order=True)
class Alert:
    """An alert as the application writes it; ``payment_id`` names the payment that crossed the limit."""

    account: str
    window_start: int
    window_end: int
    total_cents: int
    payments: int
    payment_id: str


@dataclass
class Expectation:
    """The output that the application must have made of a log of payments.

    Args:
        alerts: in the order of each partition.
        late: payments that came after the grace period.
        poison: records that cannot be read.
    """

    alerts: list[Alert] = field(default_factory=list)
    late: int = 0
    poison: int = 0


def expected(log: Iterable[LoggedPayment]) -> Expectation:
    """Returns the alerts for these payments: each partition by itself, in the order of its offsets.

    Time is the largest timestamp that a partition's payments had so far (of those that count: with an account and an
    amount above zero). A payment is late when its window ended a minute or more before that.
    """
    result = Expectation()
    partitions: defaultdict[int, list[LoggedPayment]] = defaultdict(list)
    for payment in log:
        partitions[payment.partition].append(payment)
    for number in sorted(partitions):
        _replay(sorted(partitions[number], key=lambda payment: payment.offset), result)
    return result


def _replay(payments: list[LoggedPayment], result: Expectation) -> None:
    spent: dict[tuple[str, int], tuple[int, int]] = {}
    now = 0
    for payment in payments:
        try:
            account = None if payment.key is None else payment.key.decode()
            document = None if payment.value is None else _document(payment.value)
        except ValueError:
            result.poison += 1
            continue
        if document is None or account is None or document["payment_id"] is None:
            continue
        amount = document["amount_cents"]
        if amount is None or amount <= 0:
            continue
        now = max(now, payment.timestamp)
        start = payment.timestamp - payment.timestamp % WINDOW_MS
        if start + WINDOW_MS + GRACE_MS <= now:
            result.late += 1
            continue
        before, count = spent.get((account, start), (0, 0))
        total = before + amount
        spent[account, start] = (total, count + 1)
        if before <= LIMIT_CENTS < total:
            result.alerts.append(Alert(account, start, start + WINDOW_MS, total, count + 1, document["payment_id"]))


def _document(value: bytes) -> dict[str, Any]:
    """The payment in ``value``; a ``ValueError`` where it is none."""
    document = json.loads(value)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    for name, kind in _KINDS.items():
        part = document.setdefault(name, None)
        if part is not None and (not isinstance(part, kind) or isinstance(part, bool)):
            raise ValueError(f"{name} is not of its kind")
    return document
