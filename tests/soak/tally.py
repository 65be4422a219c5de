"""What was done to an application, and what was wrong with it afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one soak.

    Args:
        done: how often each disturbance happened, by its name.
        recoveries: seconds from each disturbance until all input of that moment was committed, by its name.
        records: input records that were checked.
        entries: entries of stores that were checked.
        lost: output records that had to be there and were not.
        doubled: output records that were there once too often.
        wrong: output records and entries of stores that say something else than the model.
        examples: the first of what was lost, doubled or wrong, in words.
    """

    done: Counter[str] = field(default_factory=Counter)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    records: int = 0
    entries: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything was exact."""
        return not (self.lost or self.doubled or self.wrong)

    def recovered(self, name: str, seconds: float) -> None:
        """A disturbance is over."""
        self.done[name] += 1
        self.recoveries.setdefault(name, []).append(seconds)

    def example(self, text: str) -> None:
        """Keeps the first few."""
        if len(self.examples) < 20:
            self.examples.append(text)

    def text(self) -> str:
        """A table for people."""
        lines = ["disturbance                times   seconds until recovered (median, worst)"]
        for name, count in sorted(self.done.items()):
            seconds = sorted(self.recoveries.get(name, []))
            took = f"{seconds[len(seconds) // 2]:8.1f} {seconds[-1]:8.1f}" if seconds else ""
            lines.append(f"{name:25} {count:6}  {took}")
        kills = sum(count for name, count in self.done.items() if name.startswith("kill "))
        lines += [
            f"checked: {self.records:,} records, {self.entries:,} entries of stores",
            f"kills {kills}, lost {self.lost}, doubled {self.doubled}, wrong {self.wrong}",
            *self.examples,
        ]
        return "\n".join(lines)
