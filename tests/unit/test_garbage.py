"""The collector of garbage, while modules are imported."""

from __future__ import annotations

import gc

import pytest

from millrace.garbage import collector_paused


def test_nothing_is_collected_inside_and_what_was_made_there_is_not_looked_at_again() -> None:
    with collector_paused():
        assert not gc.isenabled()
        frozen, made = gc.get_freeze_count(), [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen + len(made)
    assert made[0] not in gc.get_objects()


def test_garbage_is_collected_again_after_an_error() -> None:
    with pytest.raises(ImportError), collector_paused():
        raise ImportError
    assert gc.isenabled()
