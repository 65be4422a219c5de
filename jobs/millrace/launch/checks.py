"""The report of a preflight: every check that was made, what came of it, and what to do about what failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.errors import PreflightError


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Args:
        name: what was checked, as a word or two: ``broker``, ``input topics``.
        ok: whether it is as the application needs it.
        text: what was found.
        remedy: what to do if it is not ok.
    """

    name: str
    ok: bool
    text: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All checks of one application, in the order in which they were made.

    Args:
        application: its name.
        checks: the checks.
    """

    application: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.ok)

    @property
    def ok(self) -> bool:
        """Whether the application may be started."""
        return not self.failed

    def lines(self) -> tuple[str, ...]:
        """One line per check."""
        return tuple(
            f"{'ok    ' if check.ok else 'FAILED'} {check.name}: {check.text}"
            + (f" Remedy: {check.remedy}" if not check.ok and check.remedy else "")
            for check in self.checks
        )

    def raise_if_failed(self) -> None:
        """Do nothing if all is well.

        Raises:
            PreflightError: names every check that failed, with its remedy.
        """
        if self.ok:
            return
        raise PreflightError(
            f"{self.application} cannot be started: "
            + "; ".join(f"{check.name}: {check.text}" for check in self.failed),
            remedy="; ".join(dict.fromkeys(check.remedy for check in self.failed if check.remedy)),
        )

    def summary(self) -> list[dict[str, Any]]:
        """The checks as plain data."""
        return [
            {"name": check.name, "ok": check.ok, "text": check.text[:300], "remedy": check.remedy}
            for check in self.checks
        ]
