"""``millrace init``: what it makes holds together, and it never overwrites.

``tests/integration/start/test_own_project.py`` runs it from a wheel, outside of this checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from millrace.cli.init import FILES, application_name, compatible_versions
from millrace.errors import ConfigurationError
from millrace.install.spec import load_spec
from millrace.kafka.jars import KAFKA_VERSION
from scripts.references.dags import read
from tests.unit.cli.conftest import Cli
from tests.unit.deployment.test_compose import compose_command

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(cli: Cli, tmp_path: Path) -> Path:
    """A project that was just made."""
    directory = tmp_path / "Shop Revenue"
    result = cli("init", str(directory))
    assert result.code == 0, result.err
    return directory


def made(project: Path) -> dict[str, str]:
    """Its files by their paths in it."""
    return {str(path.relative_to(project)): path.read_text() for path in project.rglob("*") if path.is_file()}


def test_it_says_every_file_that_it_made_and_makes_no_other(cli: Cli, tmp_path: Path) -> None:
    result = cli("init", str(tmp_path / "shop-revenue"))
    expected = [path.format(package="shop_revenue", application="shop-revenue") for path in FILES]
    assert sorted(made(tmp_path / "shop-revenue")) == sorted(expected)
    assert re.findall(r"wrote (.*)", result.err) == [str(tmp_path / "shop-revenue" / path) for path in expected]
    assert "README.md says what comes next" in result.out


def test_nothing_is_left_to_be_filled_in(project: Path) -> None:
    for path, text in made(project).items():
        assert not re.search(r"\{\{|\}\}", text), path
        assert text.endswith("\n"), path


def test_a_file_that_is_there_is_never_overwritten_and_nothing_is_written_beside_it(cli: Cli, tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    (directory / "dags").mkdir(parents=True)
    (directory / "dags" / "streams.py").write_text("mine")
    (directory / "notes.md").write_text("other")
    result = cli("init", str(directory))
    assert result.code == 1
    assert "has dags/streams.py already; nothing was written" in result.err
    assert made(directory) == {"dags/streams.py": "mine", "notes.md": "other"}
    # Also a link that leads nowhere is something.
    (directory / "dags" / "streams.py").unlink()
    (directory / "dags" / "streams.py").symlink_to(tmp_path / "nowhere")
    assert cli("init", str(directory)).code == 1
    assert not (tmp_path / "nowhere").exists()


def test_other_files_do_not_hinder_it(cli: Cli, tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "notes.md").write_text("mine")
    assert cli("init", str(directory)).code == 0
    assert made(directory)["notes.md"] == "mine"


@pytest.mark.parametrize(
    ("text", "name"), [("shop", "shop"), ("Shop Revenue", "shop-revenue"), ("my_app.v2", "my-app-v2"), ("-x-", "x")]
)
def test_the_directory_names_the_application(text: str, name: str) -> None:
    assert application_name(text) == name


@pytest.mark.parametrize("text", ["", "2fast", "---", "x" * 101, "日本"])
def test_a_name_that_no_module_can_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="gives no name"):
        application_name(text)


@pytest.mark.parametrize("text", ["test", "json", "millrace", "airflow", "tests", "dags", "pyarrow"])
def test_a_name_that_would_hide_another_module_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="there is another one of that name"):
        application_name(text)


def test_the_test_that_it_makes_passes(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_specification_is_valid_and_has_the_topics_of_the_topology(project: Path) -> None:
    file = project / "config" / "apps" / "shop-revenue.yaml"
    spec = load_spec(file, environment={})
    assert (spec.name, spec.module) == ("shop-revenue", "shop_revenue.topology:build")
    code = made(project)["shop_revenue/topology.py"]
    assert all(f'"{topic.name}"' in code for topic in spec.topics)


def test_the_requirement_is_this_version_and_what_is_compatible(project: Path) -> None:
    document: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())
    [requirement] = [Requirement(text) for text in document["project"]["dependencies"]]
    own = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert (requirement.name, requirement.extras) == ("millrace", {"airflow"})
    assert Version(own["version"]) in requirement.specifier
    assert document["project"]["requires-python"] == own["requires-python"]
    assert compatible_versions("0.3.1") == ">=0.3.1,<0.4"
    assert compatible_versions("2.3.1") == ">=2.3.1,<3"


def test_its_dag_folder_has_the_dags_of_the_platform(project: Path, tmp_path: Path) -> None:
    specifications = project / "config" / "apps"
    found = read(tmp_path / "home", specifications, {}, dags=project / "dags")
    assert found["errors"] == {}
    assert found == read(tmp_path / "home", specifications, {})
    assert {"millrace_deploy", "millrace_supervise_shop-revenue"} <= set(found["dags"])


def test_secrets_are_their_owner_s_new_for_each_project_and_in_no_repository_or_image(
    cli: Cli, tmp_path: Path, project: Path
) -> None:
    assert cli("init", str(tmp_path / "other")).code == 0
    assert (project / ".env").stat().st_mode & 0o777 == 0o600
    ours, others = (
        dict(re.findall(r"^(\w+)=(\S+)$", (each / ".env").read_text(), re.MULTILINE))
        for each in (project, tmp_path / "other")
    )
    assert set(ours) == {"AIRFLOW_SECRET_KEY", "AIRFLOW_JWT_SECRET"}
    assert len({*ours.values(), *others.values()}) == 4
    assert all(len(secret) >= 43 for secret in ours.values())
    assert ".env" in (project / ".gitignore").read_text().splitlines()
    ignored = (project / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "**"
    assert "!.env" not in ignored


def test_the_image_has_what_its_settings_name(project: Path) -> None:
    dockerfile = (project / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (.*)$", dockerfile, re.MULTILINE) for name in line.split()[:-1]}
    let_through = {line[1:] for line in (project / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_through
    assert all((project / name).exists() for name in copied)
    service = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]["airflow"]
    (working,) = re.findall(r"^WORKDIR (\S+)$", dockerfile, re.MULTILINE)
    assert service["environment"]["AIRFLOW__CORE__DAGS_FOLDER"] == f"{working}/dags"
    assert f"MILLRACE_CONFIG_DIR={working}/config/apps" in dockerfile
    assert service["environment"]["AIRFLOW_HOME"] == "/var/lib/millrace/airflow"
    assert "/var/lib/millrace/airflow" in dockerfile


def test_the_broker_is_of_the_version_that_millrace_runs_itself(project: Path) -> None:
    broker = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]["kafka"]
    assert broker["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", broker["environment"]["CLUSTER_ID"])
    listeners = broker["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    airflow = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]["airflow"]
    assert f"INTERNAL://{airflow['environment']['MILLRACE_BOOTSTRAP_SERVERS']}" in listeners


def test_docker_compose_takes_the_file_with_the_secrets_beside_it(project: Path) -> None:
    command = compose_command()
    if not command:
        pytest.skip("docker-compose is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [*command, "config"], cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    [secret] = re.findall(r"^AIRFLOW_SECRET_KEY=(\S+)$", (project / ".env").read_text(), re.MULTILINE)
    assert secret in done.stdout
    (project / ".env").unlink()
    without = subprocess.run(
        [*command, "config"], cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert without.returncode != 0
    assert "see .env" in without.stderr
