"""``python -m millrace.spark.python_daemon pyspark.worker``: the daemon that Spark forks its Python workers from.

It is Spark's own daemon, which has imported what a worker needs before the first one is forked. A worker then begins
within milliseconds, also one that replaces a killed one, and the seconds of imports are
paid once for each executor. Spark takes it because of ``spark.python.daemon.module``.

Threads do not survive a fork, so nothing here may leave any that a worker counts on. The only one is a housekeeper of
jemalloc, which comes with pyarrow; jemalloc's own fork handlers have each child go on without it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys

PRELOADED = (
    "pyspark.worker",
    "millrace.spark.micro_batches.worker",
    "millrace.spark.stream_threads.run_thread",
)
"""What workers import first, with all that it imports."""


def preload() -> None:
    """Imports the modules of all applications' workers, and initializes once per process; called before the first fork.

    What cannot be had here is left to the workers, which say so: the loops over librdkafka's messages.
    """
    from millrace.garbage import collector_paused

    # Spark reads the number of a port from standard output, and would take anything else for that.
    # What is imported stays: neither workers nor their collectors of garbage need to look at it again.
    with contextlib.redirect_stdout(sys.stderr), collector_paused():
        for name in PRELOADED:
            importlib.import_module(name)

        import numpy as np

        from millrace.kafka.columns.c_interface import InterfaceUnavailableError
        from millrace.kafka.columns.layout_check import checked_kernel
        from millrace.spark.start_workers import first_use

        first_use()
        with contextlib.suppress(InterfaceUnavailableError):
            checked_kernel()
    # The state of numpy's global generator was drawn when it was imported: workers would all draw the same numbers.
    os.register_at_fork(after_in_child=np.random.seed)


def main() -> None:
    """Runs the daemon: the one that Spark starts, or one that was started before Spark."""
    from millrace.spark.early_daemon import WAIT, await_spark, is_served_by_early_daemon

    if sys.argv[1] == WAIT:
        # Open until the end: it tells what Spark started that this one is still there.
        with await_spark(socket.socket(fileno=int(sys.argv[2])), preload):
            _serve()
    elif not is_served_by_early_daemon():
        preload()
        _serve()


def _serve() -> None:
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
