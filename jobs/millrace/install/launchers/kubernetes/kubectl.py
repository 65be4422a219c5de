"""Asking a cluster through ``kubectl``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from millrace.errors import OperationError
from millrace.install.launchers.tools import Tool, ToolOutput

_REQUEST_LIMIT_S = 5
_LIMIT_S = 20.0
_TOOL = Tool(program="kubectl", remedy="install kubectl, and see that it is on the PATH of this process")


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """A namespace of a cluster, accessed through ``kubectl``.

    Args:
        namespace: the namespace.
        context: context of kubectl's configuration; empty for its current one.
    """

    namespace: str
    context: str = ""

    def run(self, arguments: Sequence[str], *, given: str | None = None, limit_s: float = 0.0) -> ToolOutput:
        """Runs a command in the namespace.

        Args:
            arguments: the command.
            given: its standard input.
            limit_s: how much longer than a request it may take, seconds.

        Raises:
            OperationError: kubectl is missing, or did not end in time.
        """
        context = ["--context", self.context] if self.context else []
        timeout = f"--request-timeout={_REQUEST_LIMIT_S + limit_s:.0f}s"
        return _TOOL.run(
            [*context, "--namespace", self.namespace, timeout, *arguments], given=given, timeout_s=_LIMIT_S + limit_s
        )

    def pod(self, name: str) -> Mapping[str, Any] | None:
        """Returns the pod as the cluster describes it, or none if there is none.

        Raises:
            OperationError: the cluster does not answer, or refuses.
        """
        output = self.run(["get", "pod", name, "--output=json", "--ignore-not-found"])
        if output.code != 0:
            raise _failed(output, f"look for pod {name}")
        if not output.text.strip():
            return None
        try:
            pod = orjson.loads(output.text)
        except orjson.JSONDecodeError as error:
            raise OperationError(
                f"What kubectl says of pod {name} is no JSON: {error}.", remedy=f"see `kubectl get pod {name}`"
            ) from error
        return dict(pod)

    def apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Creates objects, or changes them to what is given.

        Raises:
            OperationError: the cluster does not answer, or refuses.
        """
        document = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).decode()
        output = self.run(["apply", "--filename=-"], given=document)
        if output.code != 0:
            raise _failed(output, "apply the application's manifests")


def _failed(output: ToolOutput, what: str) -> OperationError:
    return OperationError(
        f"kubectl could not {what}: {output.problem}.",
        remedy="see whether the cluster answers (`kubectl cluster-info`) and lets you do it (`kubectl auth can-i`)",
    )
