"""docker-compose.yml: what can be said of it without docker, and with it where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docker-compose.yml"


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


def test_every_part_of_the_platform_is_a_service(compose: dict[str, Any]) -> None:
    assert {"kafka", "postgres", "spark-master", "spark-worker-1", "spark-worker-2", "airflow"} <= set(
        compose["services"]
    )


def test_what_a_service_refers_to_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        for other, condition in service.get("depends_on", {}).items():
            assert condition["condition"] != "service_healthy" or "healthcheck" in services[other], (name, other)
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"], (name, volume)
        if build := service.get("build"):
            assert (ROOT / build["context"] / build["dockerfile"]).is_file()


def test_ports_are_open_to_this_machine_only(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_broker_is_the_version_that_is_embedded(compose: dict[str, Any]) -> None:
    from millrace.kafka.jars import KAFKA_VERSION

    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"


def test_the_image_copies_only_what_the_build_context_lets_through() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in (ROOT / "docker" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            assert set(line.split()[1:-1]) <= allowed


def compose_command() -> list[str]:
    """``docker compose`` or ``docker-compose``, whichever this machine has; empty if neither."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(command[0])
            and not subprocess.run([*command, "version"], capture_output=True, check=False).returncode
        ):
            return command
    return []


def test_docker_compose_takes_the_file() -> None:
    command = compose_command()
    if not command:
        pytest.skip("docker compose is not installed")
    result = subprocess.run(
        [*command, "-f", str(FILE), "config", "--quiet"], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
