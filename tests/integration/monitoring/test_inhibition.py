"""Routes and inhibitions, as a running Alertmanager with the project's configuration applies them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from millrace.embedded.broker import free_ports
from tests.application import ROOT, wait_until
from tests.integration.monitoring.servers import running
from tests.unit.monitoring.test_rules import alerts

CONFIG = ROOT / "config" / "alertmanager" / "alertmanager.yml"


class Alertmanager:
    """Takes alerts and says what it makes of them."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=30, trust_env=False)

    def send(self, *given: dict[str, str]) -> None:
        answer = self._client.post("/alerts", json=[{"labels": labels} for labels in given])
        assert answer.is_success, answer.text

    def known(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By name and application."""
        answer = self._client.get("/alerts").raise_for_status()
        return {(each["labels"]["alertname"], each["labels"]["application_id"]): each for each in answer.json()}


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ["prometheus-alertmanager", f"--config.file={CONFIG}", f"--web.listen-address={address}"]
    command += [f"--storage.path={tmp_path / 'data'}", "--cluster.listen-address="]
    with running(command, address=address, log=tmp_path / "alertmanager.log") as url:
        yield Alertmanager(url)


def labels_of(name: str, application: str) -> dict[str, str]:
    return {**alerts()[name]["labels"], "alertname": name, "application_id": application}  # type: ignore[dict-item]


def chosen(matchers: list[str]) -> set[str]:
    """The alerts of our rules that a list of matchers takes."""
    found = set()
    for name in alerts():
        labels = labels_of(name, "orders")
        for matcher in matchers:
            parsed = re.fullmatch(r'(\w+)(=~|!=|=)"(.*)"', matcher)
            assert parsed, matcher
            label, operator, value = parsed.groups()
            given = labels.get(label, "")
            match operator:
                case "=~":
                    holds = re.fullmatch(value, given) is not None
                case "!=":
                    holds = given != value
                case _:
                    holds = given == value
            if not holds:
                break
        else:
            found.add(name)
    return found


def test_what_another_alert_explains_is_held_back_and_everything_else_goes_to_its_receiver(
    alertmanager: Alertmanager,
) -> None:
    inhibitions = yaml.safe_load(CONFIG.read_text())["inhibit_rules"]
    rules = [(chosen(each["source_matchers"]), chosen(each["target_matchers"])) for each in inhibitions]
    causes = sorted(set().union(*(sources for sources, _ in rules)))
    others = {*alerts()} - {*causes}
    # In each application one cause fires, or two, beside all that is no cause; in one of them all that without any.
    firing = {"alone": others}
    firing |= {f"{one}-{two}": {one, two, *others} for one in causes for two in causes if one <= two}
    explained = {
        (target, application)
        for application, names in firing.items()
        for sources, targets in rules
        for target in targets & names
        if sources & names
    }
    assert len(explained) > len(causes)
    for application, names in firing.items():
        alertmanager.send(*(labels_of(name, application) for name in sorted(names)))

    def inhibited() -> set[tuple[str, str]]:
        return {key for key, each in alertmanager.known().items() if each["status"]["inhibitedBy"]}

    wait_until(lambda: inhibited() == explained, timeout_s=60, what=f"inhibited are {sorted(explained)}")
    assert {*alertmanager.known()} == {(name, application) for application in firing for name in firing[application]}
    for (name, _), each in alertmanager.known().items():
        receiver = "on-call" if each["labels"]["severity"] == "critical" else "team"
        assert [one["name"] for one in each["receivers"]] == [receiver], name
