"""What the state of a driver on a Spark cluster means for a job that never ends."""

from __future__ import annotations

from enum import StrEnum

UNKNOWN_LIMIT = 10


class SparkDriverState(StrEnum):
    """States of a driver as the master's REST interface (port 6066, not the RPC port 7077) names them.

    Source: ``org.apache.spark.deploy.master.DriverState``.
    """

    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    RELAUNCHING = "RELAUNCHING"
    UNKNOWN = "UNKNOWN"
    KILLED = "KILLED"
    FAILED = "FAILED"
    ERROR = "ERROR"


class DriverVerdict(StrEnum):
    """What a supervisor makes of it."""

    ALIVE = "alive"
    SUCCESS = "success"
    FAILED = "failed"
    ASK_AGAIN = "ask_again"


def verdict(answer: str | int | None, *, stop_requested: bool, unknown_in_a_row: int = 0) -> DriverVerdict:
    """Judge one answer of the master.

    Args:
        answer: the driver's state, an HTTP status where that came instead, or none where nobody answered.
        stop_requested: whether we asked the job to stop.
        unknown_in_a_row: answers without a usable state directly before this one.

    Returns:
        A job that finishes without having been asked is a failure, as nothing that reads a stream ends by itself.
        A missing or unreadable answer is never a failure: the job may be fine, so it is asked again.
    """
    if answer is None or isinstance(answer, int):
        return DriverVerdict.ASK_AGAIN
    try:
        state = SparkDriverState(answer)
    except ValueError:
        return DriverVerdict.ASK_AGAIN
    match state:
        case SparkDriverState.SUBMITTED | SparkDriverState.RUNNING | SparkDriverState.RELAUNCHING:
            return DriverVerdict.ALIVE
        case SparkDriverState.UNKNOWN:
            return DriverVerdict.ALIVE if unknown_in_a_row < UNKNOWN_LIMIT else DriverVerdict.FAILED
        case SparkDriverState.FINISHED | SparkDriverState.KILLED:
            return DriverVerdict.SUCCESS if stop_requested else DriverVerdict.FAILED
        case SparkDriverState.FAILED | SparkDriverState.ERROR:
            return DriverVerdict.FAILED
