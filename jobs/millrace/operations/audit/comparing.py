"""Two stores of the same layout, gone through side by side in the order of their keys."""

from __future__ import annotations

import time
from collections.abc import Iterator

from millrace.errors import StateError
from millrace.operations.audit.database import ReadOnlyDatabase, Rows
from millrace.operations.audit.replay import OutOfTimeError, is_sampled
from millrace.operations.audit.report import Difference, DifferenceKind
from millrace.state.layout import unpack_value
from millrace.topology.stores import StoreSpec

_READ_CLOCK_EVERY = 10_000


class Comparison:
    """Finds where a store differs from a replay of its changelog, in memory that does not grow with either.

    Args:
        store: the store.
        task: its task.
        audited: the database that is audited.
        replayed: the database of the replay.
        sample: share of the keys that the replay has.
        deadline: of ``time.monotonic()``.
    """

    def __init__(
        self,
        store: StoreSpec,
        task: str,
        audited: ReadOnlyDatabase,
        replayed: ReadOnlyDatabase,
        *,
        sample: float,
        deadline: float,
    ) -> None:
        self.keys = 0
        self._store = store
        self._task = task
        self._audited = audited
        self._replayed = replayed
        self._sample = sample
        self._deadline = deadline
        known = [segments for each in (audited, replayed) if (segments := each.segments(store)) is not None]
        self._rows = Rows(store, max((segments.first_live for segments in known), default=0))

    def differences(self) -> Iterator[Difference]:
        """Each key that differs.

        Raises:
            OutOfTimeError: the deadline passed.
        """
        stored = self._live(self._audited, counted=True)
        logged = self._live(self._replayed, counted=False)
        try:
            left = next(stored, None)
            right = next(logged, None)
            while left is not None or right is not None:
                if right is None or (left is not None and left[0] < right[0]):
                    assert left is not None
                    yield self._difference(left[0], left[1], None)
                    left = next(stored, None)
                elif left is None or right[0] < left[0]:
                    yield self._difference(right[0], None, right[1])
                    right = next(logged, None)
                else:
                    if left[1] != right[1]:
                        yield self._difference(left[0], left[1], right[1])
                    left, right = next(stored, None), next(logged, None)
        except StateError as error:
            yield Difference(
                store=self._store.name, task=self._task, kind=DifferenceKind.UNREADABLE, text=error.message
            )

    def _live(self, database: ReadOnlyDatabase, *, counted: bool) -> Iterator[tuple[bytes, bytes]]:
        for number, (row, content) in enumerate(database.rows(self._store.name)):
            if number % _READ_CLOCK_EVERY == 0 and time.monotonic() > self._deadline:
                raise OutOfTimeError("The time was over while stores were compared.", remedy="give a larger --budget")
            if self._rows.is_live(row) and is_sampled(self._rows.changelog_key(row), self._sample):
                self.keys += counted
                yield row, content

    def _difference(self, row: bytes, stored: bytes | None, logged: bytes | None) -> Difference:
        if stored is None:
            kind = DifferenceKind.ONLY_IN_CHANGELOG
        else:
            kind = DifferenceKind.ONLY_IN_STORE if logged is None else DifferenceKind.OTHER_VALUE
        (stored_value, stored_at), (logged_value, logged_at) = self._value(row, stored), self._value(row, logged)
        return Difference(
            store=self._store.name,
            task=self._task,
            kind=kind,
            key=self._rows.changelog_key(row),
            stored=stored_value,
            stored_at=stored_at,
            logged=logged_value,
            logged_at=logged_at,
        )

    def _value(self, row: bytes, content: bytes | None) -> tuple[bytes | None, int | None]:
        if content is None or not self._rows.has_timestamp(row):
            return content, None
        return unpack_value(content)
