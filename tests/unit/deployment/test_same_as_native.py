"""What docker-compose.yml says against what `make platform` runs without containers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from demo.airflow_service import BROKER_VARIABLE, HEALTH_PATH, LOCAL_SETTINGS, SETTINGS, read_settings
from demo.cluster import LAUNCHER_VARIABLE, MASTER_VARIABLE
from millrace.embedded import broker, cluster
from millrace.home import HOME_VARIABLE
from millrace.install.home import Home
from millrace.install.launchers import launcher_of_kind
from millrace.install.launchers.spark_cluster import master_arguments, worker_arguments
from millrace.install.spec import load_spec
from millrace.kafka.jars import KAFKA_VERSION
from tests.unit.deployment.compose import (
    PLATFORM,
    ROOT,
    Service,
    dependencies,
    example,
    is_within,
    mib,
    mounts,
    services,
)

ALL = services()
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
AIRFLOW = {name: service for name, service in ALL.items() if name.startswith("airflow-")}
WORKERS = {name: service for name, service in ALL.items() if name.startswith("spark-worker-")}
ENVIRONMENT: dict[str, str] = ALL["airflow-scheduler"]["environment"]
IMAGE = dict(re.findall(r"([A-Z_]+)=(\S+)", DOCKERFILE.split("ENV ", 1)[1].split("\n\n")[0]))


def loaded(path: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "config" / path).read_text())
    return document


# One host in several containers


def test_whoever_launches_watches_or_runs_drivers_shares_processes_loopback_and_files() -> None:
    owner = f"service:{PLATFORM}"
    for name, service in {**AIRFLOW, **WORKERS, "spark-master": ALL["spark-master"]}.items():
        assert (service["network_mode"], service["pid"]) == (owner, owner), name
        assert service["image"] == ALL[PLATFORM]["image"], name
        assert mounts(service) == {
            "/opt/millrace/config/apps": "./config/apps",
            IMAGE[HOME_VARIABLE]: "millrace",
            "/tmp": "tmp",
        }, name


def test_the_owner_of_processes_and_network_does_nothing_that_could_end_and_reaps_what_others_leave() -> None:
    assert ALL[PLATFORM]["command"] == ["sleep", "infinity"]
    assert 'ENTRYPOINT ["tini", "-s", "--"]' in DOCKERFILE
    assert not dependencies(ALL[PLATFORM])


# The image


def test_everything_in_the_image_is_from_the_lock_file_but_uv() -> None:
    installs = [line.strip() for line in re.split(r"&&|\n", DOCKERFILE) if re.search("pip install|uv (sync|pip)", line)]
    assert [line for line in installs if "uv sync --locked --no-dev" not in line] == [
        "pip install --no-cache-dir uv==0.9.*"
    ]


def test_the_image_has_what_the_settings_refer_to_and_copies_what_the_build_context_lets_through() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = [line.split()[1:] for line in DOCKERFILE.splitlines() if line.startswith("COPY")]
    copied = {name for names in copies for name in names[:-1]}
    assert copied <= allowed
    (home,) = re.findall(r"^WORKDIR (\S+)$", DOCKERFILE, re.MULTILINE)
    for key in ("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__CORE__PLUGINS_FOLDER"):
        place = Path(ENVIRONMENT[key]).relative_to(home)
        assert str(place) in copied
        assert (ROOT / place).is_dir()


def test_the_image_has_a_python_and_a_java_that_the_project_supports() -> None:
    (python,) = re.findall(r"^FROM python:([0-9.]+)-", DOCKERFILE, re.MULTILINE)
    (wanted,) = re.findall(r'^requires-python = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert f"{python}.0" in SpecifierSet(wanted)
    assert f"/python{python}/" in IMAGE["SPARK_HOME"]
    assert "openjdk-17-jre-headless" in DOCKERFILE


# Airflow


def test_airflow_has_the_settings_that_a_local_one_has_with_other_places() -> None:
    places = dict.fromkeys(("HOME_DIR", "ROOT", "PORT", "SECRET"), "x")
    local = read_settings(LOCAL_SETTINGS, places)
    here = {name for name in ENVIRONMENT if name.startswith("AIRFLOW_")}
    # Connections are encrypted by a key of the installation, and PostgreSQL's second kind of connection has its own.
    assert here - local.keys() == {"AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"}
    assert local.keys() <= here
    for name, service in AIRFLOW.items():
        assert service["env_file"] == [str(SETTINGS.relative_to(ROOT))], name
        assert service["environment"] == ENVIRONMENT, name


def test_airflow_s_components_are_those_of_a_standalone_one_and_wait_for_the_migration() -> None:
    commands = {name: service["command"] for name, service in AIRFLOW.items() if name != "airflow-migration"}
    parts = ("api-server", "scheduler", "triggerer", "dag-processor")
    assert commands == {f"airflow-{part}": ["airflow", part] for part in parts}
    for name in commands:
        assert dependencies(AIRFLOW[name])["airflow-migration"] == "service_completed_successfully", name
    assert AIRFLOW["airflow-migration"]["command"][-1] == "millrace prepare && exec airflow db migrate"


def test_airflow_s_address_is_the_same_in_settings_health_checks_and_ports() -> None:
    port = ENVIRONMENT["AIRFLOW__API__PORT"]
    assert ENVIRONMENT["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == f"http://127.0.0.1:{port}/execution/"
    assert f"127.0.0.1:{port}:{port}" in ALL[PLATFORM]["ports"]
    for part in ("api-server", "triggerer", "dag-processor"):
        assert f"http://127.0.0.1:{port}{HEALTH_PATH}" in " ".join(AIRFLOW[f"airflow-{part}"]["healthcheck"]["test"])
    assert ENVIRONMENT["AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK"] == "True"


def test_the_database_is_the_one_that_postgres_makes() -> None:
    made = ALL["postgres"]["environment"]
    url = ENVIRONMENT["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    password = made["POSTGRES_PASSWORD"]
    assert url == f"postgresql+psycopg://{made['POSTGRES_USER']}:{password}@postgres/{made['POSTGRES_DB']}"
    assert ENVIRONMENT["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] == url


# Spark


def test_spark_s_commands_are_those_of_the_cluster_that_the_tests_start() -> None:
    program, *arguments = ALL["spark-master"]["command"]
    assert program == "spark-class"
    assert arguments == master_arguments(port=7077, ui_port=8088)
    assert ENVIRONMENT[MASTER_VARIABLE] == "spark://127.0.0.1:7077"
    for number, service in enumerate(WORKERS.values(), start=1):
        arguments = worker_arguments(
            ENVIRONMENT[MASTER_VARIABLE],
            ui_port=8088 + number,
            cores=1,
            memory="1g",
            directory=Path(f"/tmp/spark-worker-{number}"),
        )
        assert service["command"] == [program, *arguments]
        assert f"http://127.0.0.1:{8088 + number}/json/" in service["healthcheck"]["test"]
    assert "127.0.0.1:8088:8088" in ALL[PLATFORM]["ports"]


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "apps").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_application_is_launched_on_the_cluster_and_fits_into_it(path: Path, tmp_path: Path) -> None:
    spec = load_spec(path, environment={**IMAGE, **ENVIRONMENT})
    assert spec.launcher.kind == ENVIRONMENT[LAUNCHER_VARIABLE] == "standalone"
    launcher_of_kind(spec.launcher.kind).plan(spec, Home.at(tmp_path).application(spec.name))
    config = spec.streams_config()
    assert config.master == ENVIRONMENT[MASTER_VARIABLE]
    assert config.bootstrap_servers == ENVIRONMENT[BROKER_VARIABLE] == "kafka:9092"
    assert str(config.state_dir).startswith(IMAGE[HOME_VARIABLE])
    assert spec.launcher.executors <= len(WORKERS)
    for service in WORKERS.values():
        memory = service["command"][service["command"].index("--memory") + 1]
        assert mib(spec.launcher.executor_memory) <= mib(memory) < mib(service["mem_limit"])
    assert mib(spec.launcher.driver_memory) < mib(AIRFLOW["airflow-scheduler"]["mem_limit"])


# Kafka

_OF_THE_MACHINE = re.compile(r"num\.partitions|timeout\.ms|delay\.ms|^listener|node\.id|^inter")
"""What makes embedded brokers start sooner on busy cores, and names of listeners."""


def brokers_of(whole: dict[str, Service], *, three: bool) -> dict[str, Service]:
    """Those that start: all with the profile, one without."""
    return {
        name: service
        for name, service in whole.items()
        if name.startswith("kafka") and (three or not service.get("profiles"))
    }


@pytest.mark.parametrize("three", [False, True])
def test_brokers_have_the_settings_of_the_embedded_ones(three: bool) -> None:
    wanted = {**broker._DEFAULT_PROPERTIES, **(cluster._PROPERTIES if three else {})}
    brokers = brokers_of(services(example(three_brokers=three)), three=three)
    assert len(brokers) == (cluster.NODES if three else 1)
    for name, service in brokers.items():
        assert service["image"] == f"apache/kafka:{KAFKA_VERSION}"
        for key, value in wanted.items():
            if not _OF_THE_MACHINE.search(key):
                found = service["environment"]["KAFKA_" + key.upper().replace(".", "_")]
                assert str(found) == value, (name, key)
        (heap,) = re.findall(r"-Xmx(\d+[mg])", service["environment"]["KAFKA_HEAP_OPTS"])
        assert mib(heap) < mib(service["mem_limit"])


@pytest.mark.parametrize("three", [False, True])
def test_clients_and_controllers_know_every_broker(three: bool) -> None:
    whole = services(example(three_brokers=three))
    brokers = {name: service["environment"] for name, service in brokers_of(whole, three=three).items()}
    addresses = ",".join(f"{name}:9092" for name in brokers)
    voters = ",".join(f"{each['KAFKA_NODE_ID']}@{name}:9093" for name, each in brokers.items())
    assert whole["airflow-scheduler"]["environment"][BROKER_VARIABLE] == addresses
    assert whole["schema-registry"]["environment"]["SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS"] == addresses
    for name, each in brokers.items():
        assert each["KAFKA_CONTROLLER_QUORUM_VOTERS"] == voters
        assert f"INTERNAL://{name}:9092," in each["KAFKA_ADVERTISED_LISTENERS"]
        (outer,) = re.findall(r"HOST://localhost:(\d+)", each["KAFKA_ADVERTISED_LISTENERS"])
        assert ALL[name]["ports"] == [f"127.0.0.1:{outer}:19092"]


# Monitoring

PORTS = {"prometheus": 9090, "pushgateway": 9091, "alertmanager": 9093, "statsd-exporter": 9102}


def test_what_prometheus_scrapes_and_tells_is_a_service_on_the_common_loopback() -> None:
    document = loaded("prometheus/prometheus.yml")
    static = [
        target
        for job in [*document["scrape_configs"], *document["alerting"]["alertmanagers"]]
        for target in (each for group in job.get("static_configs", []) for each in group["targets"])
    ]
    assert sorted(static) == sorted(f"127.0.0.1:{port}" for port in PORTS.values())
    for name, port in PORTS.items():
        assert is_within(ALL[name]), name
        assert f"http://127.0.0.1:{port}/-/ready" in ALL[name]["healthcheck"]["test"]
        assert f"127.0.0.1:{port}:{port}" in ALL[PLATFORM]["ports"]
    assert ENVIRONMENT["MILLRACE_PUSHGATEWAY"] == f"http://127.0.0.1:{PORTS['pushgateway']}"


def test_airflow_sends_its_metrics_to_where_the_exporter_listens() -> None:
    sent = read_settings(SETTINGS, {})
    listens = f"{sent['AIRFLOW__METRICS__STATSD_HOST']}:{sent['AIRFLOW__METRICS__STATSD_PORT']}"
    assert f"--statsd.listen-udp={listens}" in ALL["statsd-exporter"]["command"]


def test_prometheus_finds_drivers_where_deployments_write_their_addresses() -> None:
    home = Home.at(Path(IMAGE[HOME_VARIABLE]))
    (files,) = [
        group["files"]
        for job in loaded("prometheus/prometheus.yml")["scrape_configs"]
        for group in job.get("file_sd_configs", [])
    ]
    assert files == [str(home.scrape_target("*"))]
    assert mounts(ALL["prometheus"])[str(home.root)] == mounts(ALL["airflow-scheduler"])[str(home.root)]


@pytest.mark.parametrize("name", ["prometheus", "alertmanager"])
def test_the_configuration_of_monitoring_is_the_one_of_the_project(name: str) -> None:
    (option,) = [each for each in ALL[name]["command"] if each.startswith("--config.file=")]
    place = Path(option.split("=")[1])
    mounted = mounts(ALL[name])[str(place.parent)]
    assert mounted == f"./config/{name}"
    assert (ROOT / mounted / place.name).is_file()
    if name == "prometheus":
        for pattern in loaded("prometheus/prometheus.yml")["rule_files"]:
            assert list((ROOT / mounted).glob(pattern))


def test_grafana_finds_its_data_source_and_its_dashboards() -> None:
    grafana = ALL["grafana"]
    (source,) = loaded("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "${PROMETHEUS_URL}"
    assert grafana["environment"]["PROMETHEUS_URL"] == f"http://{PLATFORM}:{PORTS['prometheus']}"
    (provider,) = loaded("grafana/provisioning/dashboards/millrace.yml")["providers"]
    assert mounts(grafana)[provider["options"]["path"]] == "./config/grafana/dashboards"
    assert mounts(grafana)["/etc/grafana/provisioning"] == "./config/grafana/provisioning"
    assert list((ROOT / "config/grafana/dashboards").glob("*.json"))
