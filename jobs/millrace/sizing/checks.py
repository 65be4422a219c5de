"""Refusals of input that no estimate can be made of."""

from __future__ import annotations

import math

from millrace.errors import ConfigurationError


def positive(**values: float) -> None:
    """Refuses values that are no finite numbers above 0.

    Raises:
        ConfigurationError: names the first that is not.
    """
    for name, value in values.items():
        if not math.isfinite(value) or value <= 0:
            raise _refused(name, "above 0", value)


def not_negative(**values: float) -> None:
    """Refuses values that are no finite numbers of 0 or more.

    Raises:
        ConfigurationError: names the first that is not.
    """
    for name, value in values.items():
        if not math.isfinite(value) or value < 0:
            raise _refused(name, "0 or more", value)


def share(**values: float) -> None:
    """Refuses values that are not between 0 and 1, both included.

    Raises:
        ConfigurationError: names the first that is not.
    """
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise _refused(name, "between 0 and 1", value)


def _refused(name: str, wanted: str, value: float) -> ConfigurationError:
    return ConfigurationError(f"{name} must be {wanted}, not {value}.", remedy=f"give a {name} that is {wanted}")
