"""The results of a stream-stream join in the course of a batch: any number for each record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.task.columns import Column
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records


class JoinResults:
    """The collected results, in the order in which a record-by-record walk would forward them.

    Args:
        records: the records that go through the join.
        joiner: ``(left, right)``, or ``(key, left, right)`` where ``takes_key``.
        takes_key: whether the joiner wants the key.
        failures: what follows a joiner that raises.
    """

    def __init__(
        self, records: Records, joiner: Callable[..., Any], failures: FailureHandler, *, takes_key: bool
    ) -> None:
        self._records = records
        self._record_keys = records.keys.objects
        self._joiner = joiner
        self._takes_key = takes_key
        self._failures = failures
        self._rows: list[int] = []
        self._ordinals: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._times: list[int] = []
        self._own_keys = True

    def add(
        self, row: int, node: str, left: Any, right: Any, timestamp: int, *, key: Any = None, own_key: bool = True
    ) -> bool:
        """Joins two values and adds the result.

        Args:
            row: the record that causes the result.
            node: the node it is at, for errors.
            left: the left value; the same for ``right``.
            timestamp: that of the result, milliseconds.
            key: the key of the result, where it is not the record's own.
            own_key: whether it is.

        Returns:
            whether the joiner returned a result; if not, its handler continues.

        Raises:
            ProcessingError: the joiner raised, and its handler does not continue.
        """
        if own_key:
            key = self._record_keys[row]
        else:
            self._own_keys = False
        try:
            value = self._joiner(key, left, right) if self._takes_key else self._joiner(left, right)
        except Exception as error:
            self._failures.processing(error, int(self._records.origin[row]), node, processed_record(self._records, row))
            return False
        rows = self._rows
        self._ordinals.append(self._ordinals[-1] + 1 if rows and rows[-1] == row else 0)
        rows.append(row)
        self._keys.append(key)
        self._values.append(value)
        self._times.append(timestamp)
        return True

    def records(self) -> tuple[Records, list[int]]:
        """Returns the results, and for each the row of the record that caused it."""
        results = self._records.expand(
            np.array(self._rows, dtype=np.int64),
            np.array(self._ordinals, dtype=np.int64),
            None if self._own_keys else Column(objects=self._keys),
            Column(objects=self._values),
        )
        return replace(results, timestamps=np.array(self._times, dtype=np.int64)), self._rows
