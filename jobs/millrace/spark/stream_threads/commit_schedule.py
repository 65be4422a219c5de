"""The schedule of a stream thread's task: when the next batch runs, and how many records it takes."""

from __future__ import annotations

from collections.abc import Callable

from millrace.spark.stream_threads.task_input import TaskInput

FILL_S = 1.0
"""How long a batch is filled while there is a backlog, seconds: large batches merge more updates of a key."""

IDLE_COMMIT_S = 1.0
"""How long positions that moved over markers or aborted records only may stay uncommitted, seconds."""

FIRST_BATCH_RECORDS = 20_000
"""Records of a task's first batch, whose speed says how many the next ones may take."""

LONGEST_BATCH_S = 4.0
"""How long a batch is meant to be processed at most, seconds: a commit, a hand-over or a pause waits for it."""

LEAST_BATCH_RECORDS = 1_000


class BatchLimit:
    """The limit of a batch's records of one partition, by the speed of the batches before.

    Args:
        most: the limit where the task is fast enough.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.records = min(FIRST_BATCH_RECORDS, most)

    def observe(self, records: int, seconds: float) -> None:
        """Records that a batch of ``records`` took ``seconds``; ignores batches too small to compare."""
        if records < min(LEAST_BATCH_RECORDS, self.records) or seconds <= 0:
            return
        fitting = int(records / seconds * LONGEST_BATCH_S)
        self.records = min(self._most, max(fitting, LEAST_BATCH_RECORDS))


class CommitSchedule:
    """The schedule by which a task's commits are due.

    Args:
        interval_s: time between the starts of two batches with rows, seconds; it is not waited for where the input is
            full.
        recommit_s: after how long offsets that have not moved are committed again, seconds.
        wall_clock_ms: the clock of punctuations, milliseconds since the epoch.
    """

    def __init__(self, *, interval_s: float, recommit_s: float, wall_clock_ms: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._recommit_s = recommit_s
        self._wall_clock_ms = wall_clock_ms
        self._began_at = float("-inf")
        self._moved_at: float | None = None
        self._recommit_at = float("inf")
        self._punctuation_ms: int | None = None
        self._asked = False

    def open(self, now: float, *, punctuation_ms: int | None) -> None:
        """Handles that the task was opened. Its committed offsets, of unknown age, are soon committed again."""
        self._punctuation_ms = punctuation_ms
        self._recommit_at = now + IDLE_COMMIT_S

    def begin(self, now: float, *, takes_rows: bool) -> None:
        """Handles that a batch begins. One without rows, of positions only, does not delay the next records' batch."""
        if takes_rows:
            self._began_at = now
        self._asked = False

    def end(self, now: float, *, committed: bool, punctuation_ms: int | None, is_empty: bool) -> None:
        """Handles that a batch has ended.

        Args:
            now: the time.
            committed: whether offsets were committed.
            punctuation_ms: when the task's next punctuation is due by the wall clock.
            is_empty: whether nothing of the input is left to commit.
        """
        if committed:
            self._recommit_at = now + self._recommit_s
        self._punctuation_ms = punctuation_ms
        self._moved_at = None if is_empty else now

    def moved(self, now: float) -> None:
        """Handles that records or positions were read."""
        if self._moved_at is None:
            self._moved_at = now

    def ask(self) -> None:
        """Makes a commit due now."""
        self._asked = True

    def recommits(self, now: float) -> bool:
        """Returns whether the committed offsets are so old that they should be committed again."""
        return now >= self._recommit_at

    def due_in(self, now: float, read: TaskInput) -> float:
        """Returns the seconds until the next batch; infinite if there is nothing to do."""
        delays_s = [self._recommit_at - now]
        if self._punctuation_ms is not None:
            delays_s.append((self._punctuation_ms - self._wall_clock_ms()) / 1000)
        decidable_in = read.decidable_in(now)
        if decidable_in > 0 and decidable_in != float("inf"):
            delays_s.append(decidable_in)
        elif decidable_in == 0:
            delays_s.append(0.0 if self._asked or read.is_full else self._filled_in(now, read))
        elif read.has_passed_markers:
            moved_at = now if self._moved_at is None else self._moved_at
            delays_s.append(0.0 if self._asked else moved_at + IDLE_COMMIT_S - now)
        return max(0.0, min(delays_s))

    def _filled_in(self, now: float, read: TaskInput) -> float:
        """Returns the seconds until the buffered records, which do not fill a batch, are processed nevertheless."""
        wait = self._began_at + self._interval_s - now
        if read.has_backlog:
            return max(wait, (now if self._moved_at is None else self._moved_at) + FILL_S - now)
        return wait
