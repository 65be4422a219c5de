"""Which settings make a driver use the archive of Spark's classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.spark.class_archive import CLASS_PATH, JAVA_OPTIONS, _archive, class_archive_settings


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "connector.jar").write_bytes(b"jar")
    return [tmp_path / "jars" / "connector.jar"]


def test_without_an_archive_nothing_is_set(jars: list[Path]) -> None:
    assert class_archive_settings(jars) == {}


def test_the_class_path_is_that_of_the_record_whatever_link_leads_to_the_jars(jars: list[Path], tmp_path: Path) -> None:
    _archive(jars).touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "jars", target_is_directory=True)
    settings = class_archive_settings([link / "connector.jar"])
    assert settings[CLASS_PATH] == str(jars[0])
    assert settings[JAVA_OPTIONS].endswith(f"-XX:SharedArchiveFile={_archive(jars)}")


def test_other_jars_have_another_archive(jars: list[Path]) -> None:
    before = _archive(jars)
    jars[0].unlink()
    jars[0].write_bytes(b"rebuilt")
    assert _archive(jars) != before
