"""The immediate end of a fenced driver, beside the thread that ends it in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

_CANCEL_INTERVAL_S = 0.1


def end_fenced(
    cancel_jobs: Callable[[], None],
    end_process: Callable[[int], None] | None,
    *,
    exit_code: int,
    limit_s: float,
) -> None:
    """Cancels all jobs until nothing can launch one any more, and ends the process in time. Returns at once.

    The threads of the driver may hang just then: in a request to a broker, in a job that is being planned, in a lock.
    None of them is waited for.

    Args:
        cancel_jobs: cancels what runs; again and again, as a thread may have been about to launch a job.
        end_process: ends the process with an exit code; ``None`` leaves it alone.
        exit_code: the code.
        limit_s: seconds until then; jobs are cancelled for so long.
    """
    deadline = time.monotonic() + limit_s

    def cancel() -> None:
        while time.monotonic() < deadline:
            try:
                cancel_jobs()
            except Exception as error:
                # The session may be gone already, and its jobs with it.
                log.warning("jobs not cancelled", problem=f"{type(error).__name__}: {error}")
            time.sleep(_CANCEL_INTERVAL_S)

    def end() -> None:
        time.sleep(max(0.0, deadline - time.monotonic()))
        assert end_process is not None
        end_process(exit_code)

    # Each in a thread of its own: a virtual machine that does not answer must not keep the process alive.
    threading.Thread(target=cancel, name="cancel-jobs", daemon=True).start()
    if end_process is not None:
        threading.Thread(target=end, name="end-fenced", daemon=True).start()
