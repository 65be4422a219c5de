from __future__ import annotations

import pytest

from millrace.kafka.offsets import CommittedOffset, lag


@pytest.mark.parametrize(
    ("committed", "end", "expected"),
    [(130, 140, 10), (130, 100, 0), (CommittedOffset(6), 6, 0), (None, 29, None), (0, None, None)],
)
def test_lag_is_never_negative_and_never_guessed(
    committed: int | CommittedOffset | None, end: int | None, expected: int | None
) -> None:
    """Cases M01 and M02."""
    assert lag(committed, end) == expected
