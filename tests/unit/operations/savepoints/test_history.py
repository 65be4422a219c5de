"""Which savepoints are kept, and when one is due."""

from __future__ import annotations

import pytest

from millrace.install.spec import SavepointSettings
from millrace.operations.savepoints.history import is_due, outdated
from millrace.operations.savepoints.manifest import Manifest, SavepointState

COMPLETED, FAILED, IN_PROGRESS = SavepointState.COMPLETED, SavepointState.FAILED, SavepointState.IN_PROGRESS


def at(time: float, state: SavepointState = COMPLETED) -> Manifest:
    return Manifest(name=f"at-{time:g}", application="app", state=state, created_at=time)


def names(manifests: list[Manifest]) -> list[str]:
    return [each.name for each in manifests]


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        (SavepointSettings(keep_count=2), ["at-1", "at-2"]),
        (SavepointSettings(keep_count=9), []),
        (SavepointSettings(keep_count=9, keep_s=7), ["at-1", "at-2"]),
        (SavepointSettings(keep_count=1, keep_s=100), ["at-1", "at-2", "at-3"]),
        (SavepointSettings(keep_count=9, keep_s=0.5), ["at-1", "at-2", "at-3"]),
    ],
)
def test_they_are_kept_by_count_and_age_and_the_newest_always(settings: SavepointSettings, gone: list[str]) -> None:
    assert names(outdated([at(4), at(2), at(1), at(3)], settings, now=10)) == gone


def test_one_that_failed_goes_once_a_later_one_is_complete() -> None:
    settings = SavepointSettings(keep_count=9)
    manifests = [at(1, FAILED), at(2, IN_PROGRESS), at(3), at(4, FAILED), at(5, IN_PROGRESS)]
    assert names(outdated(manifests, settings, now=10)) == ["at-1", "at-2"]
    assert names(outdated(manifests, settings, now=10, under_way="at-2")) == ["at-1"]
    assert outdated([at(1, FAILED), at(2, FAILED)], settings, now=10) == []


def test_one_is_due_by_the_newest_complete_one() -> None:
    hourly = SavepointSettings(interval_s=3_600)
    assert is_due([], hourly, now=0)
    assert not is_due([at(100)], hourly, now=3_699)
    assert is_due([at(100), at(200, FAILED)], hourly, now=3_700)
    assert not is_due([], SavepointSettings(), now=0)
