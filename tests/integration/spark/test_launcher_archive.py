"""What makes Spark's script start its virtual machine sooner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from millrace.kafka.jars import spark_home
from millrace.spark.launcher_archive import VARIABLE, launcher_archive, launcher_environment, make_launcher_archive

MAIN = "org.apache.spark.launcher.Main"


def where_main_came_from(log: Path, options: str) -> str:
    """The source of the launcher's main class where Spark's script is run with options."""
    environment = {**os.environ, **launcher_environment(), VARIABLE: f"{options} -Xlog:class+load:file={log}"}
    script = str(spark_home() / "bin" / "spark-submit")
    subprocess.run([script, "--version"], env=environment, capture_output=True, check=True)
    (line,) = [line for line in log.read_text().splitlines() if f" {MAIN} source: " in line]
    return line.partition(" source: ")[2]


def test_the_launcher_maps_the_archive_that_was_made_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    before = launcher_environment()[VARIABLE]
    assert "jar" in where_main_came_from(tmp_path / "before", before)

    old = tmp_path / "jars" / "launcher-of-another-java.jsa"
    old.parent.mkdir()
    old.touch()
    said: list[str] = []
    archive = make_launcher_archive(said.append)
    assert not old.exists()
    assert [archive.name in line for line in said] == [True]
    options = launcher_environment()[VARIABLE]
    assert options == f"{before} -XX:SharedArchiveFile={archive}"
    assert where_main_came_from(tmp_path / "after", options) == "shared objects file (top)"

    # It is there: nothing is made, and nothing said.
    assert make_launcher_archive(said.append) == archive
    assert len(said) == 1


def test_an_archive_whose_path_has_a_blank_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "with a blank"
    monkeypatch.setenv("MILLRACE_HOME", str(home))
    archive = launcher_archive()
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert "SharedArchiveFile" not in launcher_environment()[VARIABLE]
    assert where_main_came_from(tmp_path / "log", launcher_environment()[VARIABLE])
