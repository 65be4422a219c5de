from __future__ import annotations

from pathlib import Path

import pytest

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
