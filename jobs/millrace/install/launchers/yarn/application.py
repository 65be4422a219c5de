"""A driver as an application of YARN: what the resource manager reports, and how it is ended."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.driver.ending import ExitCode
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launcher_settings import CONTROL_TOKEN
from millrace.install.launchers.instance import ControlPlane, DriverEnd, Ended, EndLimits, Presence, Probe
from millrace.install.launchers.tools import Tool, ToolOutput
from millrace.processes import ProcessIdentity

_LIMIT_S = 30.0
_YARN = Tool(program="yarn", remedy="install Hadoop's client, and see that `yarn` is on the PATH of this process")
_FIELD = re.compile(r"^\t([A-Z][A-Za-z- ]*?) : ?(.*)$")
_FENCED = re.compile(rf"(?:status|exitCode:?) {ExitCode.FENCED:d}\b")
"""What YARN says of an application master that ended with the exit code of a driver that was replaced."""

_UNKNOWN = re.compile(r"Application with id '[^']*' doesn't exist")
_WAITING = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"}
_ENDED = {"FINISHED", "FAILED", "KILLED"}


def run_yarn(arguments: Sequence[str]) -> ToolOutput:
    """Runs ``yarn application`` with these arguments.

    Raises:
        OperationError: it is missing, or did not end in time.
    """
    return _YARN.run(["application", *arguments], timeout_s=_LIMIT_S)


def read_report(text: str) -> Mapping[str, str]:
    """Returns the fields of what ``yarn application -status`` prints; diagnostics of several lines as one text."""
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if match := _FIELD.match(line):
            last = match.group(1)
            fields[last] = match.group(2).strip()
        elif last:
            fields[last] = f"{fields[last]} {line.strip()}".strip()
    return fields


@dataclass(frozen=True, kw_only=True)
class YarnApplication:
    """A driver in YARN's application master.

    Args:
        id: such as ``application_1498034384235_0004``.
        port: of the control plane.
    """

    id: str
    port: int
    probe_interval_s = 3.0

    @property
    def name(self) -> str:
        """The name for people."""
        return f"YARN {self.id}"

    @property
    def process(self) -> ProcessIdentity | None:
        """None: it does not run on this host."""
        return None

    def to_mapping(self) -> Mapping[str, Any]:
        """Returns the driver for the record."""
        return {"yarn_application": self.id, "port": self.port}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> YarnApplication:
        """Returns the application in a record.

        Raises:
            OperationError: the record lacks something.
        """
        try:
            return cls(id=str(values["yarn_application"]), port=int(values["port"]))
        except (KeyError, TypeError, ValueError) as error:
            raise OperationError(
                f"The record names no application of YARN: {error}.",
                remedy="see `yarn application -list`, kill the driver's, deploy again",
            ) from error

    def probe(self, directory: ApplicationDirectory) -> Probe:
        """Asks the resource manager."""
        try:
            output = run_yarn(["-status", self.id])
        except OperationError as error:
            return Probe(presence=Presence.UNKNOWN, text=error.message)
        return self.probe_result(output, directory)

    def probe_result(self, output: ToolOutput, directory: ApplicationDirectory) -> Probe:
        """Returns what the resource manager's answer says. Pure."""
        if _UNKNOWN.search(output.text) or _UNKNOWN.search(output.messages):
            return Probe(presence=Presence.GONE, text=f"{self.name} is not known to the resource manager any more")
        report = read_report(output.text)
        state = report.get("State", "")
        if output.code != 0 or not state:
            return Probe(presence=Presence.UNKNOWN, text=f"yarn does not tell of {self.id}: {output.problem}")
        diagnostics = report.get("Diagnostics", "")
        why = f": {diagnostics[:500]}" if diagnostics not in {"", "N/A"} else ""
        if state in _ENDED:
            text = f"{self.name} is {state} ({report.get('Final-State', '?')}){why}"
            fenced = _FENCED.search(diagnostics) is not None
            return Probe(presence=Presence.GONE, text=text, ending=DriverEnd.fenced(self.name) if fenced else None)
        text = f"{self.name} is {state}{why}"
        host = report.get("AM Host", "N/A")
        if state in _WAITING or host == "N/A":
            return Probe(presence=Presence.ALIVE, text=text)
        control = ControlPlane(address=f"http://{host}:{self.port}", token_file=directory.path / CONTROL_TOKEN)
        return Probe(presence=Presence.ALIVE, text=text, control=control)

    def end(self, directory: ApplicationDirectory, limits: EndLimits) -> Ended:
        """Kills it; the resource manager ends its containers."""
        seen = self.probe(directory)
        if seen.presence is Presence.GONE:
            return Ended()
        if seen.presence is Presence.UNKNOWN:
            return Ended(left=f"{self.name}, {seen.text}", remedy="stop it again when the resource manager answers")
        run_yarn(["-kill", self.id])
        steps = (f"killed {self.name}",)
        deadline = time.monotonic() + limits.terminate_s + limits.kill_s
        while (seen := self.probe(directory)).presence is not Presence.GONE:
            if time.monotonic() >= deadline:
                return Ended(steps=steps, left=seen.text, remedy=f"see `yarn application -status {self.id}`")
            time.sleep(self.probe_interval_s)
        return Ended(steps=steps)
