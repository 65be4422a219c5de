"""A real Prometheus and a real Pushgateway, on free ports, with the configuration of the project."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from millrace.tls import tls_context
from tests.application import ROOT, wait_until

CONFIG = ROOT / "config" / "prometheus"
FASTER = 30
"""A rule waits so many times shorter than in production; its expression stays as it is."""
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def configuration(directory: Path, *, targets: Path, pushgateway: str) -> Path:
    """The project's configuration with other places and shorter waits, in ``directory``."""
    document = yaml.safe_load((CONFIG / "prometheus.yml").read_text())
    document["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
    del document["alerting"]
    applications, export, *_ = document["scrape_configs"]
    applications["file_sd_configs"] = [{"files": [str(targets / "*.json")], "refresh_interval": "1s"}]
    export["static_configs"] = [{"targets": [pushgateway]}]
    document["scrape_configs"] = [applications, export]
    (directory / "rules").mkdir(parents=True)
    for path in CONFIG.glob("rules/*.yml"):
        rules = yaml.safe_load(path.read_text())
        for group in rules["groups"]:
            group.pop("interval", None)
            for rule in group["rules"]:
                if "for" in rule:
                    found = re.fullmatch(r"(\d+)([smh])", rule["for"])
                    assert found, rule
                    rule["for"] = f"{max(1, int(found[1]) * _SECONDS[found[2]] // FASTER)}s"
        (directory / "rules" / path.name).write_text(yaml.safe_dump(rules))
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def running(command: list[str], *, address: str, log: Path) -> Iterator[str]:
    """Runs a server until the end of the block; gives its URL once it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            url = f"http://{address}"
            wait_until(
                lambda: httpx.get(f"{url}/-/ready", verify=tls_context()).is_success,
                timeout_s=60,
                what=f"{command[0]}: ready",
            )
            yield url
        finally:
            process.terminate()
            process.wait(30)


class Prometheus:
    """Asks a Prometheus."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False, verify=tls_context())

    def _ask(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = self._client.get(path, params=parameters)
        assert answer.is_success, answer.text
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def now(self, expr: str) -> list[dict[str, Any]]:
        return self._ask("/api/v1/query", query=expr)

    def between(self, expr: str, start: float, end: float) -> list[dict[str, Any]]:
        return self._ask("/api/v1/query_range", query=expr, start=start, end=end, step=1)

    def firing(self) -> set[str]:
        return {each["metric"]["alertname"] for each in self.now('ALERTS{alertstate="firing"}')}
