"""A relay of the outbox as a process of its own, that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.application import SEARCH_PATH


def start_relay(database: str, bootstrap_servers: str) -> subprocess.Popen[bytes]:
    """Starts it; whoever asked for it ends it."""
    command = [sys.executable, "-m", "apps.order_outbox", "--database", database]
    return subprocess.Popen(
        [*command, "--bootstrap-servers", bootstrap_servers],
        env={**os.environ, "PYTHONPATH": SEARCH_PATH},
        stderr=subprocess.DEVNULL,
    )
