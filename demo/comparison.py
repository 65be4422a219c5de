"""What was read from the platform against what the model says it must have written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.fraud_model import Alert, LoggedPayment, expected

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a demo.

    Args:
        payments: payments in their topic.
        acknowledged: payments that the broker has acknowledged.
        unprocessed: of these, how many the application had not committed when it stopped.
        late: how many came too late, by the model.
        poison: how many cannot be read, by the model.
        dead_letters: how many were read from the dead-letter topic.
        expected: number of alerts by the model.
        read: number of alerts that were read.
        missing: alerts that were expected and not read.
        unexpected: alerts that were read and not expected; a second copy of an expected one is among them.
    """

    payments: int
    acknowledged: int
    unprocessed: int
    late: int
    poison: int
    dead_letters: int
    expected: int
    read: int
    missing: tuple[Alert, ...]
    unexpected: tuple[Alert, ...]

    @property
    def ok(self) -> bool:
        """Whether everything was processed, nothing was lost and nothing came twice."""
        as_sent = self.payments == self.acknowledged
        return (
            as_sent and not (self.unprocessed or self.missing or self.unexpected) and self.dead_letters == self.poison
        )

    def lines(self) -> list[str]:
        """The comparison for people."""
        lines = [
            f"payments sent      {self.payments:>9,}   of these {self.late:,} too late, {self.poison:,} unreadable",
            f"alerts expected    {self.expected:>9,}   by the independent model",
            f"alerts read        {self.read:>9,}   read_committed",
            f"missing            {len(self.missing):>9,}",
            f"unexpected, double {len(self.unexpected):>9,}",
            f"dead-letter records{self.dead_letters:>9,}   expected {self.poison:,}",
        ]
        if self.payments != self.acknowledged:
            lines.append(f"acknowledged       {self.acknowledged:>9,}   payments, and others stand in their topic")
        if self.unprocessed:
            lines.append(f"unprocessed        {self.unprocessed:>9,}   payments, when the application was stopped")
        lines += [f"  missing: {alert}" for alert in self.missing[:_SHOWN]]
        lines += [f"  unexpected: {alert}" for alert in self.unexpected[:_SHOWN]]
        lines.append("EXACTLY ONCE: all alerts are there, once each" if self.ok else "DIFFERENT: see above")
        return lines


def compare(
    sent: Sequence[LoggedPayment],
    committed: dict[int, int],
    alerts: Iterable[Alert],
    *,
    acknowledged: int,
    dead_letters: int,
) -> Comparison:
    """Judges a run.

    Args:
        sent: the payments as they stand in their topic.
        committed: the application's committed offset of each partition of the payments.
        alerts: what was read from the alerts' topic.
        acknowledged: number of payments that the broker has acknowledged.
        dead_letters: number of records in the dead-letter topic.
    """
    processed = [payment for payment in sent if payment.offset < committed.get(payment.partition, 0)]
    expectation = expected(processed)
    wanted, found = Counter(expectation.alerts), Counter(alerts)
    return Comparison(
        payments=len(sent),
        acknowledged=acknowledged,
        unprocessed=len(sent) - len(processed),
        late=expectation.late,
        poison=expectation.poison,
        dead_letters=dead_letters,
        expected=wanted.total(),
        read=found.total(),
        missing=tuple(sorted((wanted - found).elements())),
        unexpected=tuple(sorted((found - wanted).elements())),
    )
