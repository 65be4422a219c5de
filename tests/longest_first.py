"""The order of test files: the longest begin, so that no worker is left alone with one of them at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def put_first(items: list[pytest.Item], directory: Path, names: Sequence[str]) -> None:
    """Order collected tests by file, and leave them as they are within one.

    Args:
        items: the tests; ordered in place.
        directory: where the files are.
        names: paths of files in it that come first, in this order.

    Raises:
        FileNotFoundError: one of the files does not exist.
    """
    ranks = {directory / name: rank for rank, name in enumerate(names)}
    for path in ranks:
        path.stat()
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
