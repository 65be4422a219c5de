from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from millrace import home
from millrace.home import millrace_home


def test_the_environment_names_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    assert millrace_home() == tmp_path / "home"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILLRACE_HOME", "relative")
    assert millrace_home() == tmp_path / "relative"


def test_without_it_the_installation_is_in_the_checkout_from_wherever_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLRACE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert millrace_home() == Path(__file__).resolve().parents[2] / ".millrace"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as a wheel installs it, without a checkout around it."""
    monkeypatch.delenv("MILLRACE_HOME", raising=False)
    file = tmp_path / "lib" / "python3" / "site-packages" / "millrace" / "home.py"
    file.parent.mkdir(parents=True)
    shutil.copy(home.__file__, file)
    spec = importlib.util.spec_from_file_location("installed_home", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_outside_of_a_checkout_the_project_is_where_the_specifications_are_from_any_directory_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: ModuleType
) -> None:
    project = tmp_path / "shop"
    run_directory = project / ".millrace" / "run" / "revenue"
    run_directory.mkdir(parents=True)
    (project / "config" / "apps").mkdir(parents=True)
    for working in (project, project / "config", run_directory):
        monkeypatch.chdir(working)
        assert installed.project_directory() == project
        assert installed.millrace_home() == project / ".millrace"


def test_outside_of_a_project_it_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: ModuleType
) -> None:
    monkeypatch.chdir(tmp_path)
    assert installed.millrace_home() == tmp_path / ".millrace"
