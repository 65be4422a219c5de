"""After a crash of the embedded broker: fences the broker's old session before the broker itself starts again.

A node that is broker and controller in one comes back while the session of the process that died still counts as
alive. It becomes leader on the old registration, and a few seconds later, when that session times out, it loses every
partition for a moment. A transaction that was decided but had no markers yet is taken for one of deleted partitions
in that moment ("Couldn't find leader endpoint ... likely deleted already and hence can be skipped") and is completed
without its markers: read_committed readers of those partitions then stop there for ever, and the group's offsets stay
pending. Seen with Apache Kafka 4.4.0 at three of four kills right after a commit.

So the controller runs alone first, with a session timeout of a moment; the broker then starts without an old session.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.errors import OperationError
from millrace.kafka.java import QUICK_TO_START
from millrace.processes import ProcessIdentity

_SETTINGS = (
    "node.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "log.dirs",
)
_SESSION_TIMEOUT_MS = 300
_ACTIVE = "Becoming the active controller"
_FENCED = "handleBrokerFenced"
_FENCING_LIMIT_S = 10.0


def ended_in_order(data: Path) -> bool:
    """Returns whether the broker that used a data directory last has shut down."""
    return (data / ".kafka_cleanshutdown").exists()


def fence_old_session(
    java: Sequence[str], directory: Path, settings: Mapping[str, str], controller: str, *, timeout_s: float
) -> None:
    """Runs the controller alone until it has fenced the broker that died; nothing else of its data changes.

    A broker that had not come as far as a session has none that could be fenced: then the controller is ended after
    some seconds in which it fenced nothing.

    Args:
        java: command line of the virtual machine, without a main class.
        directory: of the broker; ``fencing.log`` and ``fencing.properties`` are written there.
        settings: of the broker.
        controller: ``host:port`` of the controller's listener.
        timeout_s: longest time until the controller is active, seconds.

    Raises:
        OperationError: the controller did not become active.
    """
    log = directory / "fencing.log"
    configuration = directory / "fencing.properties"
    alone = {name: settings[name] for name in _SETTINGS} | {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{controller}",
        "broker.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
        "broker.heartbeat.interval.ms": str(_SESSION_TIMEOUT_MS // 3),
    }
    configuration.write_text("".join(f"{name}={value}\n" for name, value in alone.items()), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, *QUICK_TO_START, "-Xmx256m", "kafka.Kafka", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            start_new_session=True,
        )
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None, "a child that was not waited for has its entry"
    try:
        if not _said(log, _ACTIVE, process, timeout_s):
            raise OperationError(
                f"The controller of the broker in {directory} did not become active within {timeout_s:g} s.",
                remedy=f"see {log}",
            )
        _said(log, _FENCED, process, _FENCING_LIMIT_S)
    finally:
        identity.terminate_group(timeout_s=10)
        process.wait(timeout=10)


def _said(log: Path, words: str, process: subprocess.Popen[bytes], limit_s: float) -> bool:
    def is_missing() -> bool:
        if words in log.read_text(encoding="utf-8", errors="replace"):
            return False
        if process.poll() is not None:
            raise OperationError(f"The controller ended with {process.returncode}.", remedy=f"see {log}")
        return True

    try:
        Retrying(retry=retry_if_result(bool), stop=stop_after_delay(limit_s), wait=wait_fixed(0.1))(is_missing)
    except RetryError:
        return False
    return True
