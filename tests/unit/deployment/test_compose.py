"""docker-compose.yml: what it refers to is there, and docker-compose takes it with the example of its settings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.deployment.compose import (
    EXAMPLE,
    FILE,
    PLATFORM,
    ROOT,
    dependencies,
    example,
    is_within,
    mib,
    mounts,
    read,
    secrets,
    services,
)

ALL = services()
ALWAYS = {
    PLATFORM, "kafka", "postgres", "spark-master", "spark-worker-1", "spark-worker-2",
    "airflow-migration", "airflow-api-server", "airflow-scheduler", "airflow-triggerer", "airflow-dag-processor",
    "prometheus", "pushgateway", "alertmanager", "statsd-exporter", "grafana",
}  # fmt: skip


def test_every_part_of_the_platform_is_a_service_and_profiles_add_brokers_and_a_schema_registry() -> None:
    profiles = {name: service.get("profiles") for name, service in ALL.items()}
    assert {name for name, asked in profiles.items() if asked is None} == ALWAYS
    assert {name: asked for name, asked in profiles.items() if asked} == {
        "kafka-2": ["brokers"],
        "kafka-3": ["brokers"],
        "schema-registry": ["schema-registry"],
    }


def test_what_a_service_refers_to_is_there() -> None:
    volumes = read()["volumes"]
    for name, service in ALL.items():
        for other, condition in dependencies(service).items():
            assert other in ALWAYS, f"{name} waits for {other}, which a profile may leave out"
            assert condition != "service_healthy" or "healthcheck" in ALL[other], (name, other)
        for source in mounts(service).values():
            assert (ROOT / source).is_dir() if source.startswith("./") else source in volumes, (name, source)
        for file in service.get("env_file", []):
            assert (ROOT / file).is_file()
        if build := service.get("build"):
            assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    used = {source for service in ALL.values() for source in mounts(service).values()}
    assert volumes.keys() <= used


def test_every_service_has_limits_and_whatever_goes_on_is_looked_after() -> None:
    for name, service in ALL.items():
        assert mib(service["mem_limit"]) >= 64, name
        assert service["cpus"] > 0, name
        goes_on = name not in {"airflow-migration", PLATFORM}
        assert ("healthcheck" in service) == goes_on, name
        assert service["restart"] == ("no" if name == "airflow-migration" else "unless-stopped"), name


def test_ports_are_open_to_this_machine_only_and_each_once() -> None:
    ports = [port for service in ALL.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    outer = [port.split(":")[1] for port in ports]
    assert len(outer) == len(set(outer))
    # A service in the network of another cannot open ports of its own.
    assert not any(is_within(service) and service.get("ports") for service in ALL.values())


def test_every_secret_comes_from_the_environment_file_and_none_has_a_default() -> None:
    assert secrets() == set(example())
    assert set(example().values()) == {""}
    for name, service in ALL.items():
        for key, value in service.get("environment", {}).items():
            if any(word in key for word in ("PASSWORD", "SECRET", "FERNET", "SQL_ALCHEMY_CONN")):
                assert key.endswith("PASSWORDS_FILE") or "${" in value, (name, key)
    for ignoring in (".gitignore", ".dockerignore"):
        assert str(EXAMPLE.relative_to(ROOT)).removesuffix(".example") in (ROOT / ignoring).read_text().splitlines()
    whole = {"./config", "./config/"}
    assert not any(whole & set(mounts(service).values()) for service in ALL.values()), "secrets would be in it"


def compose_command() -> list[str]:
    """``docker compose`` or ``docker-compose``, whichever this machine has; empty if neither."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(command[0])
            and not subprocess.run([*command, "version"], capture_output=True, check=False).returncode
        ):
            return command
    return []


def checked(environment: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    """What docker-compose says of the file with these settings."""
    command = compose_command()
    if not command:
        pytest.skip("docker-compose is not installed")
    file = directory / "deployment.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    return subprocess.run(
        [*command, "--env-file", str(file), "-f", str(FILE), "config", "--quiet"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("three_brokers", [False, True])
def test_docker_compose_takes_the_file_with_the_example_filled_in(three_brokers: bool, tmp_path: Path) -> None:
    filled_in = {name: value or "secret" for name, value in example(three_brokers=three_brokers).items()}
    result = checked(filled_in, tmp_path)
    assert result.returncode == 0, result.stderr
    assert ("COMPOSE_PROFILES" in filled_in) == three_brokers


def test_docker_compose_refuses_the_example_as_it_is_and_says_where_secrets_belong(tmp_path: Path) -> None:
    result = checked(example(), tmp_path)
    assert result.returncode != 0
    assert str(EXAMPLE.relative_to(ROOT)) in result.stderr


def test_no_settings_of_airflow_are_read_differently_by_versions_of_compose() -> None:
    """The older ones take an environment file as it stands, newer ones fill variables in."""
    for service in ALL.values():
        for file in service.get("env_file", []):
            assert "$" not in (ROOT / file).read_text()
