"""Whether a process runs an application: on this host, on another one, or as a member of its group."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from millrace.driver.health import HealthLimits, HealthReason, assess
from millrace.driver.status import ApplicationStatus
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import lives
from millrace.install.record import read_record
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import live_members


def runs_here(directory: ApplicationDirectory) -> str:
    """The driver that this installation launched and that lives, in words; empty where there is none."""
    record = read_record(directory)
    if record is not None and record.driver is not None and record.is_driver_alive(directory):
        return f"its driver is {record.driver.name}" + (" of this host" if record.process is not None else "")
    return f"a driver holds {directory.driver_lock}" if lives(directory) else ""


def runs_elsewhere(status: ApplicationStatus | None) -> str:
    """The driver that lives as the status topic says, in words; empty where there is none.

    One of this host is looked for among the processes; of another host it is believed until its heartbeat is overdue.
    """
    if status is None or status.state.has_ended:
        return ""
    who = f"process {status.driver.pid} on {status.driver.host}"
    if status.driver.host == socket.gethostname():
        return f"its driver is {who}" if status.driver.process.is_alive() else ""
    age = time.time() - status.updated_at
    if assess(status, now=time.time(), limits=HealthLimits()).reason is HealthReason.HEARTBEAT_OVERDUE:
        return ""
    return f"its driver is {who}, which gave a sign of life {age:.0f} s ago"


def members(admin: KafkaAdmin, application_id: str) -> str:
    """The members of the application's group, in words; empty where there are none."""
    found = live_members(admin, application_id)
    return f"its group has members: {found}" if found.is_live else ""


def refusal(application: str, signs: Sequence[str], *, what: str) -> OperationError:
    """Why something is not done to an application that runs."""
    return OperationError(
        f"Cannot {what} {application} while it runs: {'; '.join(signs)}.",
        remedy="stop it (`millrace stop`, or --stop where this installation runs it), on every host; members that are "
        "dead and have not been missed yet are passed over with --force",
    )
