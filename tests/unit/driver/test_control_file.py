from __future__ import annotations

from pathlib import Path

import pytest

from millrace.driver.control_file import ControlFile, new_token, read_token
from millrace.errors import ConfigurationError, OperationError

VARIABLE = "TEST_TOKEN"


def make(pid: int = 1) -> ControlFile:
    return ControlFile(pid=pid, start_time=2, address="http://127.0.0.1:1", token_file="/t")


def test_a_control_file_is_read_as_it_was_written_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "control.json"
    make().write(path)
    assert ControlFile.read(path) == make()
    assert [each.name for each in path.parent.iterdir()] == ["control.json"]


def test_a_driver_removes_its_own_control_file_only(tmp_path: Path) -> None:
    path = tmp_path / "control.json"
    make(pid=2).write(path)
    make(pid=1).remove_own(path)
    assert path.exists()
    make(pid=2).remove_own(path)
    assert not path.exists()
    make(pid=2).remove_own(path)


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_missing_or_broken_control_file_is_an_error_with_its_path(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "control.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OperationError, match=r"control\.json"):
        ControlFile.read(path)


def test_a_new_token_is_random_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "control.token"
    first = new_token(path, VARIABLE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == first
    assert new_token(path, VARIABLE) != first


def test_the_environment_may_name_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "control.token"
    monkeypatch.setenv(VARIABLE, " given\n")
    assert new_token(path, VARIABLE) == "given"
    assert read_token(path) == "given"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_or_missing_token_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token(tmp_path / "none")
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(ConfigurationError, match="is empty"):
        read_token(tmp_path / "empty")
