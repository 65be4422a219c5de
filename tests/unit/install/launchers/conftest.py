"""Programs of clusters that do what a test says: spark-submit, kubectl and yarn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.install.home import Home

Program = Callable[[str, str], Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An installation of its own; nothing that is launched from it runs on this host."""
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir(parents=True)
    return home


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Makes a program, written in Python, that comes first on the path; ``spark-submit`` is found by ``SPARK_HOME``."""
    directory = tmp_path / "spark" / "bin"
    directory.mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(directory.parent))
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, source: str) -> Path:
        path = directory / name
        path.write_text(f"#!{sys.executable}\n{source}\n")
        path.chmod(0o755)
        return path

    return make
