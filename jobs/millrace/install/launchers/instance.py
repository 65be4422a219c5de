"""A driver that was started: what can be seen of it from here, and how it is ended, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from millrace.driver.ending import ExitCode
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.processes import ProcessIdentity


class Presence(StrEnum):
    """The presence of a driver."""

    ALIVE = "alive"
    GONE = "gone"
    TAKEN = "taken"
    """It is gone, and something else has its name or number."""
    UNKNOWN = "unknown"
    """Whoever knows cannot be asked now; the driver may be well."""


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """The access to a driver's control plane.

    Args:
        address: ``http://host:port``.
        token_file: file on this host with the bearer token of changing requests.
    """

    address: str
    token_file: Path


@dataclass(frozen=True, kw_only=True)
class DriverEnd:
    """The end of a driver, as it reported it or as its exit code says.

    Args:
        exit_code: see :class:`millrace.driver.ending.ExitCode`.
        reason: why.
        remedy: what to do now.
    """

    exit_code: int
    reason: str
    remedy: str = ""

    @classmethod
    def fenced(cls, name: str) -> DriverEnd:
        """Returns the end of a driver elsewhere, of which only the exit code is known.

        Args:
            name: the driver.
        """
        return cls(
            exit_code=ExitCode.FENCED,
            reason=f"{name} was fenced by a newer driver (exit code {ExitCode.FENCED:d}); its log has which one",
            remedy="nothing, if the newer driver is meant; otherwise stop it, and deploy the application here again",
        )


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The result of a probe of a driver.

    Args:
        presence: whether it is there.
        text: what is to be seen: why it ended, or what a driver that does not answer yet waits for.
        control: how it is asked, once that is known.
        ending: how it ended, where that is known.
        stopped: which of its processes are stopped (SIGSTOP), in words; empty where none is, or none can be seen.
    """

    presence: Presence
    text: str = ""
    control: ControlPlane | None = None
    ending: DriverEnd | None = None
    stopped: str = ""


@dataclass(frozen=True, kw_only=True)
class EndLimits:
    """The time limits of each step of ending a driver by force.

    Args:
        terminate_s: time to end after it was told to (SIGTERM), seconds.
        kill_s: time until nothing is left of it after it was killed, seconds.
    """

    terminate_s: float = 10.0
    kill_s: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The outcome of ending a driver by force.

    Args:
        steps: what was done.
        left: what is still there, in words; empty when nothing is.
        remedy: what to do about that.
    """

    steps: tuple[str, ...] = ()
    left: str = ""
    remedy: str = ""


class DriverInstance(Protocol):
    """A driver that a launcher has started. It is data: the record of the job holds it."""

    @property
    def name(self) -> str:
        """The name for people: ``process 4711``."""
        ...

    @property
    def process(self) -> ProcessIdentity | None:
        """Its process, where it runs on this host."""
        ...

    @property
    def probe_interval_s(self) -> float:
        """Time between two probes of a process that waits, seconds: as short as a probe is cheap."""
        ...

    def to_mapping(self) -> Mapping[str, Any]:
        """Returns the driver for the record, JSON-compatible."""
        ...

    def probe(self, directory: ApplicationDirectory) -> Probe:
        """Probes whether the driver is there and how it is asked.

        It never raises for a problem of the driver or its host.
        """
        ...

    def end(self, directory: ApplicationDirectory, limits: EndLimits) -> Ended:
        """Ends it and all that it brought along, without asking it, and takes away what is left of one that has ended.

        Safe to repeat.
        """
        ...


def is_alive(driver: DriverInstance | None, directory: ApplicationDirectory) -> bool:
    """Returns whether a driver is there, for those who must not guess.

    Raises:
        OperationError: whoever knows cannot be asked.
    """
    if driver is None:
        return False
    probe_result = driver.probe(directory)
    if probe_result.presence is Presence.UNKNOWN:
        raise OperationError(
            f"Whether {driver.name} of {directory.application} lives cannot be found out: {probe_result.text}",
            remedy="try again when its cluster answers",
        )
    return probe_result.presence is Presence.ALIVE
