"""A project of one's own, outside of this checkout: the wheel in a fresh environment, ``millrace init``, a real broker.

The environment has the versions of the lock file. What the project's README says is done in its order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from confluent_kafka import Consumer, Producer

from demo.airflow_service import HEALTH_PATH, AirflowService
from demo.leftovers import end_processes_of
from millrace.embedded.broker import free_ports
from millrace.home import millrace_home
from millrace.kafka.jars import IVY_SETTINGS_VARIABLE
from millrace.processes import ProcessIdentity
from millrace.tls import tls_context
from scripts.audit import find_uv
from scripts.references.dags import DAGS
from tests.unit.project.pages import ROOT, blocks
from tests.waiting import PATIENCE, eventually

NAME = "shop-revenue"
FOR_PEOPLE = 'pip install --editable ".[test]"'
ORDERS = 400
MINUTE = int(time.time()) // 60 * 60_000
RESULT_LIMIT_S = 120.0


class Outside:
    """A fresh environment and an empty directory, with nothing of the checkout in reach.

    Args:
        directory: where both are made.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.project = directory / NAME
        self.wheels = directory / "wheels"
        self._constraints = directory / "constraints.txt"
        self._environment = directory / "environment"
        uv = find_uv()
        assert uv is not None, "scripts/setup.sh installs uv"
        self._uv = uv

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._environment / "bin" / "python"

    def make(self) -> None:
        """Build the wheel, and make the environment without it."""
        self._run(self._uv, "build", "--quiet", "--wheel", "--out-dir", str(self.wheels), str(ROOT))
        export = ("export", "--quiet", "--locked", "--project", str(ROOT), "--all-extras", "--no-emit-project")
        self._run(self._uv, *export, "--no-hashes", "--no-annotate", "--output-file", str(self._constraints))
        self._run(self._uv, "venv", "--quiet", "--python", sys.executable, str(self._environment))

    def install(self, *what: str) -> None:
        """Install with the versions of the lock file, as pip would with the wheels at hand."""
        options = ("--python", str(self.python), "--find-links", str(self.wheels), "--constraints")
        self._run(self._uv, "pip", "install", "--quiet", *options, str(self._constraints), *what)

    def variables(self, broker: int) -> dict[str, str]:
        """Those that a reader of the README has."""
        left_out = ("MILLRACE_", "PYTHON", "VIRTUAL_ENV", "AIRFLOW", "SPARK", "PYSPARK")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(left_out) and (name == "PATH" or str(ROOT) not in value)
        }
        if IVY_SETTINGS_VARIABLE in os.environ:
            kept[IVY_SETTINGS_VARIABLE] = os.environ[IVY_SETTINGS_VARIABLE]
        search_path = [str(self.python.parent), *(each for each in kept["PATH"].split(":") if str(ROOT) not in each)]
        return {
            **kept,
            "PATH": ":".join(search_path),
            "COLUMNS": "200",
            "MILLRACE_BOOTSTRAP_SERVERS": f"localhost:{broker}",
        }

    def shell(self, script: str, environment: dict[str, str], *, within: Path | None = None) -> str:
        """What commands write; each must succeed."""
        log = self.directory / "log"
        with log.open("w+") as output:
            done = subprocess.run(
                ["bash", "-ex", "-c", script],
                cwd=within or self.project,
                env=environment,
                # What goes on in the background would keep a pipe open.
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        printed = log.read_text()
        assert done.returncode == 0, printed
        return printed

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    """An environment with the wheel and nothing that only an extra brings, and the project that it makes.

    It is on a disk: the suite keeps temporary files in memory, and libraries of 1 GB, which uv links to its cache where
    that is on the same file system, do not belong there.
    """
    with tempfile.TemporaryDirectory(prefix="millrace-project-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        outside = Outside(Path(made))
        outside.make()
        outside.install("millrace")
        yield outside
        assert end_processes_of(outside.project / ".millrace") == {}


@pytest.fixture(scope="module")
def project(outside: Outside) -> Path:
    """The project, installed as its README says."""
    outside.shell(f"millrace init {NAME}", outside.variables(1), within=outside.directory)
    outside.install("--editable", f"{outside.project}[test]")
    (outside.project / ".millrace").mkdir()
    # What the first start would download.
    (outside.project / ".millrace" / "jars").symlink_to(millrace_home() / "jars")
    return outside.project


def in_its_interpreter(outside: Outside, expression: str) -> Any:
    """What an expression is there; it may use ``sys``, ``find_spec`` and ``millrace``."""
    imports = "import json, millrace, sys; from importlib.util import find_spec"
    done = subprocess.run(
        [outside.python, "-c", f"{imports}; print(json.dumps({expression}))"],
        cwd=outside.directory,
        env=outside.variables(1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_wheel_alone_has_the_command_line_and_no_airflow_and_no_applications(outside: Outside) -> None:
    for name, expected in (("millrace", True), ("airflow", False), ("psycopg", False), ("apps", False)):
        assert in_its_interpreter(outside, f"find_spec({name!r}) is not None") == expected, name
    printed = outside.shell("millrace --help", outside.variables(1), within=outside.directory)
    assert "Kafka Streams for Python people" in printed


def test_nothing_of_the_checkout_is_on_its_path(outside: Outside, project: Path) -> None:
    path = in_its_interpreter(outside, "sys.path")
    assert not [each for each in path if Path(each).is_relative_to(ROOT)]
    assert str(project) in path, "the project is installed in place"
    home = in_its_interpreter(outside, "millrace.__file__")
    assert Path(home).is_relative_to(outside.directory)


def test_what_its_readme_says_works_in_its_order_and_the_application_counts_every_order_once(
    outside: Outside, project: Path
) -> None:
    [port] = free_ports(1)
    environment = outside.variables(port)
    commands, _ = blocks(project / "README.md", "sh")
    install, *lines = [line.partition("  #")[0].strip() for line in commands.replace("9092", str(port)).splitlines()]
    assert install == FOR_PEOPLE
    until_deployed = lines.index(f"millrace deploy {NAME}") + 1
    try:
        printed = outside.shell("\n".join(lines[:until_deployed]), environment)
        assert "2 passed" in printed
        assert "Sub-topology: 1" in printed
        assert "is ready" in printed
        assert_it_runs_from_the_environment(outside, environment)
        send_orders(f"localhost:{port}")
        assert revenue(f"localhost:{port}") == {"north": (ORDERS // 2, 60_000), "south": (ORDERS // 2, 60_400)}
        printed = outside.shell("\n".join(lines[until_deployed:]), environment)
    finally:
        left = end_processes_of(project / ".millrace")
    assert left == {}, printed
    assert "RUNNING" in printed


def assert_it_runs_from_the_environment(outside: Outside, environment: dict[str, str]) -> None:
    """The driver's process knows the environment's interpreter and nothing of the checkout but its jars."""
    printed = outside.shell("millrace status --json 2>/dev/null", environment)
    [pid] = {int(each) for each in re.findall(r'"pid":\s*(\d+)', printed)}
    driver = psutil.Process(pid)
    assert Path(driver.cmdline()[0]).is_relative_to(outside.directory)
    assert not [value for value in driver.environ().values() if str(ROOT) in value]
    assert Path(driver.environ()["MILLRACE_HOME"]) == outside.project / ".millrace"


def send_orders(servers: str) -> None:
    """Orders of one minute from two shops, and one that nobody pays."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(ORDERS):
        order = {"order": f"o{number}", "shop": ("north", "south")[number % 2], "cents": 300 + 2 * (number % 2)}
        producer.produce("orders", key=f"o{number}", value=json.dumps(order), timestamp=MINUTE + number)
    unpaid = {"order": "u", "shop": "north", "cents": 0}
    producer.produce("orders", key="u", value=json.dumps(unpaid), timestamp=MINUTE)
    assert producer.flush(30) == 0


def revenue(servers: str) -> dict[str, tuple[int, int]]:
    """The last result of each shop, orders and cents, once they have all the orders."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe(["revenue-per-minute"])
    found: dict[str, tuple[int, int]] = {}
    deadline = time.monotonic() + RESULT_LIMIT_S * PATIENCE
    try:
        while sum(orders for orders, _ in found.values()) < ORDERS:
            assert time.monotonic() < deadline, found
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            total = json.loads(value)
            assert total["minute"] == MINUTE
            found[key.decode()] = (total["orders"], total["cents"])
    finally:
        consumer.close()
    return found


@pytest.fixture
def airflow(outside: Outside, project: Path) -> Iterator[AirflowService]:
    """Airflow as the compose file starts it, with other places and another port."""
    [port] = free_ports(1)
    service = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]["airflow"]
    secrets = dict(re.findall(r"^(\w+)=(\S+)$", (project / ".env").read_text(), re.MULTILINE))
    home = outside.directory / "home"
    (home / "airflow").mkdir(parents=True)
    places = {
        f"/opt/{NAME}": str(project),
        "/var/lib/millrace": str(home),
        ":8080": f":{port}",
        "/usr/local/bin/python": str(outside.python),
    }
    settings = {"AIRFLOW__API__PORT": str(port), "AIRFLOW__API__HOST": "127.0.0.1"}
    of_the_image = dict(re.findall(r"(\w+)=(\S+)", (project / "Dockerfile").read_text().partition("\nENV ")[2]))
    for name, text in {**of_the_image, **service["environment"]}.items():
        value = re.sub(r"\$\{(\w+):[^}]*\}", lambda found: secrets[found[1]], text)
        for place, here in places.items():
            value = value.replace(place, here)
        settings.setdefault(name, value)
    program, *arguments = service["command"]
    assert program == "python"
    directory = home / "airflow"
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [outside.python, *arguments],
            cwd=directory,
            env={**outside.variables(1), **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None

    def answers() -> bool:
        assert process.poll() is None, (directory / "log").read_text()
        try:
            health = httpx.get(
                f"http://127.0.0.1:{port}{HEALTH_PATH}", timeout=30, trust_env=False, verify=tls_context()
            ).json()
        except (httpx.HTTPError, json.JSONDecodeError):
            return False
        return all(health[part]["status"] == "healthy" for part in ("scheduler", "triggerer", "dag_processor"))

    service = AirflowService(process=identity, address=f"http://127.0.0.1:{port}", directory=directory, password="")
    try:
        eventually(answers, True, limit_s=240)
        password = json.loads((directory / "passwords.json").read_text())["admin"]
        yield replace(service, password=password)
    finally:
        service.stop()
        process.wait(30 * PATIENCE)
        assert end_processes_of(home) == {}


def test_the_airflow_of_its_compose_file_has_the_platforms_dags_and_one_that_supervises_the_application(
    airflow: AirflowService, project: Path
) -> None:
    client = airflow.client()
    platform = {path.stem for path in DAGS.glob("*.py")} - {"millrace_supervise"}
    expected = platform | {f"millrace_supervise_{NAME}"}

    def known() -> set[str]:
        return {each["dag_id"] for each in client.request("GET", "/dags?limit=100")["dags"]}

    eventually(known, expected, limit_s=120)
    assert client.request("GET", "/importErrors")["import_errors"] == []
    found = client.request("GET", "/dags/millrace_deploy")
    assert found["fileloc"] == str(project / "dags" / "streams.py"), "Airflow parses and runs it from the project"
