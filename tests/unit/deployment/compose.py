"""docker-compose.yml as its users have it: read, and filled in with an environment file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / "config" / "deployment.env.example"
PLATFORM = "platform"
_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")
_SETTING = re.compile(r"([A-Z_]+)=(.*)")

Service = dict[str, Any]


def read(environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The document; what ``environment`` lacks has its default, secrets stay as they are written."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        return (environment or {}).get(name) or (rest if kind == "-" else match[0])

    loaded: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, FILE.read_text()))
    return loaded


def services(environment: dict[str, str] | None = None) -> dict[str, Service]:
    found: dict[str, Service] = read(environment)["services"]
    return found


def secrets() -> set[str]:
    """Variables without which nothing starts."""
    return {match[1] for match in _VARIABLE.finditer(FILE.read_text()) if match[2] == "?"}


def example(*, three_brokers: bool = False) -> dict[str, str]:
    """The settings of the example, with those of three brokers or without."""
    lines = EXAMPLE.read_text().splitlines()
    settings = [_SETTING.fullmatch(line.removeprefix("#") if three_brokers else line) for line in lines]
    return {found[1]: found[2] for found in settings if found}


def dependencies(service: Service) -> dict[str, str]:
    """Other services, and what is waited for."""
    asked = service.get("depends_on", {})
    if isinstance(asked, list):
        return dict.fromkeys(asked, "service_started")
    return {name: condition["condition"] for name, condition in asked.items()}


def mounts(service: Service) -> dict[str, str]:
    """What is mounted, by its place in the container."""
    return {each.split(":")[1]: each.split(":")[0] for each in service.get("volumes", [])}


def mib(size: str) -> int:
    """``512m``, ``2g`` in MiB."""
    return int(size[:-1]) * {"m": 1, "g": 1024}[size[-1]]


def is_within(service: Service) -> bool:
    """Whether it is in the platform's network, where the loopback is common to all."""
    return bool(service.get("network_mode") == f"service:{PLATFORM}")
