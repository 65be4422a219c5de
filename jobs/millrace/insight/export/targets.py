"""The targets of an export: a Pushgateway, or a text file that a collector reads.

Series that are gone disappear there.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from millrace.errors import OperationError
from millrace.files import write_atomically
from millrace.insight.export.series import Groups, openmetrics, text_format
from millrace.tls import tls_context
from millrace.urls import login_of, without_login

JOB = "millrace-export"
_LIMIT_S = 10.0


class MetricsTarget(Protocol):
    """Takes an export."""

    def write(self, groups: Groups) -> tuple[str, ...]:
        """Replaces what an earlier export left by this one.

        Returns:
            The applications whose series were removed, as far as the target tells.

        Raises:
            OperationError: it could not be written.
        """
        ...


@dataclass(frozen=True)
class TextFile:
    """A text file with all applications, replaced as a whole.

    Args:
        path: a name that ends in ``.prom`` gets Prometheus' text format, as node_exporter's textfile collector wants
            it; any other gets OpenMetrics.
    """

    path: Path

    def write(self, groups: Groups) -> tuple[str, ...]:
        """Works like :meth:`MetricsTarget.write`."""
        try:
            write_atomically(self.path, (text_format if self.path.suffix == ".prom" else openmetrics)(groups))
        except OSError as error:
            raise OperationError(
                f"{self.path} cannot be written: {error.strerror}.", remedy="name a file in a directory of yours"
            ) from error
        # A collector runs as another user.
        self.path.chmod(0o644)
        return ()


@dataclass(frozen=True)
class Pushgateway:
    """A Pushgateway with one group for each application of each installation.

    Args:
        url: its address, for example ``http://127.0.0.1:9091``; with user and password where it wants a login.
        instance: names the installation. Groups of other installations are left alone.
    """

    url: str = field(repr=False)
    instance: str = field(default_factory=socket.gethostname)

    def write(self, groups: Groups) -> tuple[str, ...]:
        """Works like :meth:`MetricsTarget.write`."""
        # The client writes the address of each request into its log.
        address, login = without_login(self.url).rstrip("/"), login_of(self.url)
        with httpx.Client(
            base_url=address, auth=login, timeout=_LIMIT_S, trust_env=False, verify=tls_context()
        ) as client:
            for application, samples in groups.items():
                self._ask(client, "PUT", self._path(application), content=text_format({application: samples}))
            gone = sorted(set(self._groups(client)) - set(groups))
            for application in gone:
                self._ask(client, "DELETE", self._path(application))
        return tuple(gone)

    def _groups(self, client: httpx.Client) -> Iterator[str]:
        for group in self._ask(client, "GET", "/api/v1/metrics").json()["data"]:
            labels = group["labels"]
            if labels.get("job") == JOB and labels.get("instance") == self.instance and "application_id" in labels:
                yield labels["application_id"]

    def _path(self, application: str) -> str:
        return f"/metrics/job/{JOB}/instance{_path_value(self.instance)}/application_id{_path_value(application)}"

    def _ask(self, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise OperationError(
                f"The Pushgateway {without_login(self.url)} does not answer: {type(error).__name__} {error}.",
                remedy="see whether it runs, and correct the address",
            ) from error
        if not answer.is_success:
            raise OperationError(
                f"The Pushgateway {without_login(self.url)} refused {method} {path} with {answer.status_code}: "
                f"{answer.text[:300]}",
                remedy="see its log; a version of 1.0 or newer is needed",
            )
        return answer


def _path_value(value: str) -> str:
    """A label's value as a part of the path: encoded where it has a slash, as the Pushgateway wants it."""
    if "/" in value:
        return "@base64/" + base64.urlsafe_b64encode(value.encode()).decode()
    return "/" + quote(value, safe="")
