"""What templates give is text: its truth, its numbers, its lists."""

from __future__ import annotations


def is_true(value: bool | str) -> bool:
    """The truth of a value that a template may have made text."""
    return value if isinstance(value, bool) else value.strip().lower() in {"true", "1", "yes"}


def names(text: str | None) -> tuple[str, ...]:
    """Names that are separated by commas; none where nothing is given."""
    given = "" if text in {None, "None"} else str(text)
    return tuple(name.strip() for name in given.split(",") if name.strip())


def text_or_none(value: str | None) -> str | None:
    """A text, or nothing where a template gave nothing."""
    return None if value in {None, "", "None"} else str(value)
