"""What the wheel asks for and what is in it: pyproject.toml against the code and the lock file."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.unit.project.pages import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
EXTRAS = {
    name: [Requirement(text) for text in texts] for name, texts in PROJECT["project"]["optional-dependencies"].items()
}
LOCKED = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
NO_UPPER_BOUND = {"fsspec", "pyarrow", "rich", "structlog"}
"""Versions by date, and libraries with a new major version each season."""
COMES_WITH = {"py4j": "pyspark", "pydantic-core": "pydantic"}
"""Libraries that are a part of another one, whose versions go together."""


def imported(directory: Path) -> Iterator[str]:
    """The distributions that modules import, the standard library and types left out."""
    distributions = packages_distributions()
    for path in sorted(directory.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in {*sys.stdlib_module_names, "_typeshed", "millrace", "millrace_airflow", "apps"}:
                    yield canonicalize_name(distributions[top][0])


def test_engine_and_command_line_import_what_the_wheel_requires_and_all_of_it_is_used() -> None:
    required = {canonicalize_name(each.name) for each in REQUIRED}
    optional = {canonicalize_name(each.name) for each in EXTRAS["kubernetes"]}
    used = {COMES_WITH.get(name, name) for name in imported(ROOT / "jobs" / "millrace")}
    assert used - optional <= required
    # Spark's functions over Arrow need it.
    assert required - used == {"pandas"}


def test_airflow_comes_with_the_extra_only() -> None:
    assert "apache-airflow" not in {each.name for each in REQUIRED}
    assert [each.name for each in EXTRAS["airflow"]] == ["apache-airflow", "statsd"]
    assert "psycopg" in {each.name for each in EXTRAS["demo"]}


@pytest.mark.parametrize("requirement", [*REQUIRED, *(each for extra in EXTRAS.values() for each in extra)], ids=str)
def test_versions_are_ranges_that_have_those_of_the_lock_file(requirement: Requirement) -> None:
    if requirement.name == PROJECT["project"]["name"]:
        assert requirement.extras <= {*EXTRAS}
        return
    operators = {each.operator for each in requirement.specifier}
    assert operators == ({">="} if requirement.name in NO_UPPER_BOUND else {">=", "<"})
    versions = [Version(each["version"]) for each in LOCKED if each["name"] == canonicalize_name(requirement.name)]
    assert versions
    assert all(version in requirement.specifier for version in versions)


def test_no_range_has_the_client_library_that_hangs_after_a_broker_s_restart() -> None:
    """librdkafka 2.16, issues 5456 and 5511: requests to a group's coordinator outlive every time limit."""
    [kafka] = [each for each in REQUIRED if each.name == "confluent-kafka"]
    assert "2.15.1" in kafka.specifier
    assert not [version for version in ("2.16.0", "2.16.1", "3.0.0") if version in kafka.specifier]


def test_an_environment_from_the_lock_file_has_every_extra() -> None:
    own = [Requirement(text) for text in PROJECT["dependency-groups"]["dev"] if text.startswith("millrace[")]
    assert [each.extras for each in own] == [{*EXTRAS}]


def test_the_wheel_has_two_packages_and_no_applications() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["jobs/millrace", "plugins/millrace_airflow", "dags"]
    assert wheel["sources"] == {"jobs": "", "plugins": "", "dags": "millrace_airflow/platform_dags"}
