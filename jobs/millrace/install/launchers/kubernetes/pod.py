"""The pod of a driver: what its description says, and how it is ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.driver.ending import ExitCode
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launcher_settings import CONTROL_TOKEN
from millrace.install.launchers.instance import ControlPlane, DriverEnd, Ended, EndLimits, Presence, Probe
from millrace.install.launchers.kubernetes.kubectl import Kubectl
from millrace.processes import ProcessIdentity

_KEPT_LINES = 2000
_ENDED_PHASES = {"Succeeded", "Failed"}


@dataclass(frozen=True, kw_only=True)
class DriverPod:
    """A driver in a pod. Another pod of the same name is another driver: its uid differs.

    Args:
        pod: name of the pod.
        uid: its uid.
        namespace: its namespace.
        context: context of kubectl's configuration; empty for its current one.
        port: of the control plane.
    """

    pod: str
    uid: str
    namespace: str
    context: str
    port: int
    probe_interval_s = 1.0

    @property
    def name(self) -> str:
        """The name for people."""
        return f"pod {self.namespace}/{self.pod}"

    @property
    def process(self) -> ProcessIdentity | None:
        """None: it does not run on this host."""
        return None

    @property
    def kubectl(self) -> Kubectl:
        """The access to its cluster."""
        return Kubectl(namespace=self.namespace, context=self.context)

    def to_mapping(self) -> Mapping[str, Any]:
        """Returns the driver for the record."""
        return {
            "pod": self.pod,
            "uid": self.uid,
            "namespace": self.namespace,
            "context": self.context,
            "port": self.port,
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> DriverPod:
        """Returns the pod in a record.

        Raises:
            OperationError: the record lacks something.
        """
        try:
            return cls(
                pod=str(values["pod"]),
                uid=str(values["uid"]),
                namespace=str(values["namespace"]),
                context=str(values["context"]),
                port=int(values["port"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OperationError(
                f"The record names no pod: {error}.", remedy="see `kubectl get pods`, delete the driver's, deploy again"
            ) from error

    def probe(self, directory: ApplicationDirectory) -> Probe:
        """Asks the cluster."""
        try:
            found = self.kubectl.pod(self.pod)
        except OperationError as error:
            return Probe(presence=Presence.UNKNOWN, text=error.message)
        if found is None:
            return Probe(presence=Presence.GONE, text=f"{self.name} is not there any more: it was deleted or evicted")
        if found["metadata"]["uid"] != self.uid:
            return Probe(presence=Presence.TAKEN, text=f"{self.name} is another one by now")
        return self.probe_result(found, directory)

    def probe_result(self, found: Mapping[str, Any], directory: ApplicationDirectory) -> Probe:
        """Returns what the description of the pod says. Pure."""
        text = f"{self.name} {_state(found)}"
        if found["status"].get("phase") in _ENDED_PHASES:
            fenced = ExitCode.FENCED in _exit_codes(found)
            return Probe(presence=Presence.GONE, text=text, ending=DriverEnd.fenced(self.name) if fenced else None)
        address = found["status"].get("podIP") if _is_running(found) else None
        if not address:
            return Probe(presence=Presence.ALIVE, text=text)
        host = f"[{address}]" if ":" in address else address
        control = ControlPlane(address=f"http://{host}:{self.port}", token_file=directory.path / CONTROL_TOKEN)
        return Probe(presence=Presence.ALIVE, text=text, control=control)

    def end(self, directory: ApplicationDirectory, limits: EndLimits) -> Ended:
        """Keeps its last lines, then deletes it; the cluster takes away what belongs to it, the executors too."""
        seen = self.probe(directory)
        if seen.presence is Presence.TAKEN:
            return Ended()
        if seen.presence is Presence.UNKNOWN:
            return Ended(left=f"{self.name}, {seen.text}", remedy="stop it again when the cluster answers")
        steps = []
        deletion = ["delete", "pod", self.pod, "--ignore-not-found", "--wait=true"]
        if self.kubectl.pod(self.pod) is not None:
            self._keep_log(directory)
            steps.append(f"deleted {self.name}")
            grace = f"--grace-period={max(1, round(limits.terminate_s))}"
            limit_s = limits.terminate_s + limits.kill_s
            self.kubectl.run([*deletion, grace, f"--timeout={limit_s:.0f}s"], limit_s=limit_s)
        if self.probe(directory).presence is Presence.ALIVE:
            # A node that is lost never tells that the pod has ended.
            steps.append(f"deleted {self.name} by force")
            limit_s = limits.kill_s
            self.kubectl.run([*deletion, "--force", "--grace-period=0", f"--timeout={limit_s:.0f}s"], limit_s=limit_s)
        left = self.probe(directory)
        if left.presence in {Presence.ALIVE, Presence.UNKNOWN}:
            return Ended(
                steps=tuple(steps), left=left.text, remedy=f"see `kubectl -n {self.namespace} describe pod {self.pod}`"
            )
        return Ended(steps=tuple(steps))

    def _keep_log(self, directory: ApplicationDirectory) -> None:
        output = self.kubectl.run(["logs", self.pod, f"--tail={_KEPT_LINES}"])
        with directory.log.open("a") as log:
            log.write(output.text if output.code == 0 else f"(no log of {self.name}: {output.problem})\n")


def _containers(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = found["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def _exit_codes(found: Mapping[str, Any]) -> set[int]:
    states = [each.get("state", {}).get("terminated") for each in found["status"].get("containerStatuses", ())]
    return {int(state["exitCode"]) for state in states if state is not None}


def _is_running(found: Mapping[str, Any]) -> bool:
    return found["status"].get("phase") == "Running" and all(
        "running" in each.get("state", {}) for each in found["status"].get("containerStatuses", ())
    )


def _state(found: Mapping[str, Any]) -> str:
    """The phase, and the first reason that is found: of the pod, of a container, of a condition that does not hold."""
    status = found["status"]
    phase = str(status.get("phase", "Unknown"))
    if "deletionTimestamp" in found["metadata"]:
        phase = f"{phase}, being deleted"
    reasons = [_reason(status)]
    for each in _containers(found):
        for kind in ("waiting", "terminated"):
            state = each.get("state", {}).get(kind)
            if state is not None:
                code = f" (exit code {state['exitCode']})" if kind == "terminated" else ""
                reasons.append(f"{_reason(state)}{code}")
    reasons += [_reason(each) for each in status.get("conditions", ()) if each.get("status") == "False"]
    said = next((reason for reason in reasons if reason), "")
    return f"is {phase}: {said}" if said else f"is {phase}"


def _reason(part: Mapping[str, Any]) -> str:
    return ": ".join(str(part[key]).strip() for key in ("reason", "message") if part.get(key))
