"""The installation's own broker, which outlives the command that started it: ``<home>/broker`` and its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.embedded.broker import EmbeddedBroker
from millrace.errors import OperationError
from millrace.home import millrace_home
from millrace.kafka.clients import quiet_admin_client
from millrace.kafka.jars import Progress
from millrace.processes import ProcessIdentity

RECORD_FILE = "broker.json"


@dataclass(frozen=True, kw_only=True)
class BrokerStatus:
    """The status of a detached broker.

    Args:
        running: whether its process lives.
        answers: whether it answered a metadata request just now.
        process: the process of the record; ``None`` where there is no record.
        bootstrap_servers: where it listens (or listened); empty where there is no record.
        directory: its data and logs.
    """

    running: bool
    answers: bool
    process: ProcessIdentity | None
    bootstrap_servers: str
    directory: Path


def start_detached(
    home: Path | None = None,
    *,
    port: int | None = None,
    heap: str = "512m",
    properties: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    progress: Progress | None = None,
) -> BrokerStatus:
    """Starts the installation's broker and leaves it running; nothing if it runs already.

    A crash of the caller after the process started and before the record was written leaves a broker that no record
    names; the next start then says that its port is taken.

    Args:
        home: the installation; default :func:`millrace.home.millrace_home`.
        port: port for clients; default: that of the last start, or a free one.
        heap: Java's ``-Xmx``.
        properties: broker settings that override the defaults.
        timeout_s: how long the broker may take to answer, seconds.
        progress: gets a line of text for each step.

    Raises:
        OperationError, BrokerUnavailableError, PreflightError: see :meth:`EmbeddedBroker.start`.
    """
    root = home or millrace_home()
    status = broker_status(root)
    if status.running:
        return status
    broker = EmbeddedBroker(root / "broker", port=port, heap=heap, properties=properties, home=root)
    broker.start(timeout_s=timeout_s, progress=progress)
    write_record(broker)
    return broker_status(root)


def stop_detached(home: Path | None = None, *, timeout_s: float = 30) -> bool:
    """Stops the installation's broker.

    Returns:
        Whether there was one to stop.

    Raises:
        OperationError: it lives on, which only a process that the kernel cannot end does.
    """
    status = broker_status(home)
    if not status.running or status.process is None:
        return False
    status.process.terminate_group(timeout_s=timeout_s)
    if status.process.is_alive():
        raise OperationError(
            f"The broker (process {status.process.pid}) did not end.", remedy="look at the process and its disk"
        )
    (status.directory / RECORD_FILE).unlink(missing_ok=True)
    return True


def broker_status(home: Path | None = None) -> BrokerStatus:
    """Returns what the record says and whether it still holds; it answers within about a second."""
    directory = (home or millrace_home()) / "broker"
    record = read_record(directory)
    if record is None:
        return BrokerStatus(running=False, answers=False, process=None, bootstrap_servers="", directory=directory)
    process, bootstrap_servers = record
    running = process.is_alive()
    answers = running and quiet_admin_client(bootstrap_servers).answers(timeout_s=2.0)
    return BrokerStatus(
        running=running, answers=answers, process=process, bootstrap_servers=bootstrap_servers, directory=directory
    )


def write_record(broker: EmbeddedBroker) -> None:
    """Writes ``broker.json`` beside the data of a running broker: process id, starts time and address."""
    assert broker.identity is not None
    record = {**broker.identity.to_mapping(), "bootstrap_servers": broker.bootstrap_servers}
    scratch = broker.directory / f"{RECORD_FILE}.new"
    scratch.write_text(json.dumps(record), encoding="utf-8")
    scratch.replace(broker.directory / RECORD_FILE)


def read_record(directory: Path) -> tuple[ProcessIdentity, str] | None:
    """Returns the inverse of :func:`write_record`; ``None`` where there is none or it names no process."""
    try:
        record = json.loads((directory / RECORD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    process = ProcessIdentity.from_mapping(record)
    return None if process is None else (process, str(record["bootstrap_servers"]))
