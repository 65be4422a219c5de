"""The provider's metadata, judged by Airflow's own schema."""

from __future__ import annotations

import importlib
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import validate  # type: ignore[import-untyped]

from millrace_airflow.hooks import MillraceHook
from millrace_airflow.provider import get_provider_info

REPOSITORY = Path(__file__).resolve().parents[3]


def test_it_is_what_airflow_expects_of_a_provider() -> None:
    schema = orjson.loads((resources.files("airflow") / "provider_info.schema.json").read_bytes())
    validate(get_provider_info(), schema)


def test_the_package_names_it_as_its_entry_point() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    module, _, function = project["entry-points"]["apache_airflow_provider"]["provider_info"].partition(":")
    assert getattr(importlib.import_module(module), function) is get_provider_info
    assert get_provider_info()["package-name"] == project["name"]


def test_everything_that_it_names_is_there() -> None:
    information = get_provider_info()
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for each in information[kind]:
            for module in each["python-modules"]:
                importlib.import_module(module)
    for path in [*information["notifications"], *_hooks(information)]:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


def _hooks(information: dict[str, Any]) -> list[str]:
    return [each["hook-class-name"] for each in information["connection-types"]]


def test_the_form_has_the_two_directories_and_the_hook_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (form,) = get_provider_info()["connection-types"]
    assert set(form["conn-fields"]) == {"home", "config_dir"}
    assert form["connection-type"] == MillraceHook.conn_type
    extra = {"home": str(tmp_path / "home"), "config_dir": str(tmp_path / "apps")}
    monkeypatch.setenv(
        "AIRFLOW_CONN_MILLRACE_ELSEWHERE", orjson.dumps({"conn_type": "millrace", "extra": extra}).decode()
    )
    hook = MillraceHook("millrace_elsewhere")
    assert (hook.home.root, hook.home.specs) == (tmp_path / "home", tmp_path / "apps")
    assert hook.test_connection() == (False, f"no such directory: {tmp_path / 'home'}, {tmp_path / 'apps'}")
    for name in ("home", "apps"):
        (tmp_path / name).mkdir()
    (tmp_path / "apps" / "payments.yaml").touch()
    assert hook.test_connection() == (True, "applications: payments")
