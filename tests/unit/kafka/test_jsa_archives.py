"""Archives of Java classes: recorded whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.kafka.jsa_archives import Recording, archive_path, install_archive


def recording(source: str, *, limit_s: float = 30) -> Recording:
    return Recording(command=[sys.executable, "-c", source], what="the classes of a test", limit_s=limit_s)


def test_a_command_that_fails_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    failing = recording("import sys; print('no memory', file=sys.stderr); sys.exit(4)")
    with pytest.raises(OperationError, match=r"The classes of a test could not be recorded \(status 4\): no memory\."):
        failing.run(tmp_path / "made.jsa")


def test_a_command_that_writes_nothing_has_failed(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="could not be recorded"):
        recording("").run(tmp_path / "made.jsa")


def test_a_command_that_takes_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match=r"took longer than 0\.2 s"):
        recording("import signal; signal.pause()", limit_s=0.2).run(tmp_path / "made.jsa")


def test_one_that_was_recorded_takes_the_place_of_older_ones_of_its_kind(tmp_path: Path) -> None:
    recorded, archive = tmp_path / "new", tmp_path / "spark-2.jsa"
    recording(f"open({str(recorded)!r}, 'w').write('classes')").run(recorded)
    for other in ("spark-1.jsa", "launcher-1.jsa"):
        (tmp_path / other).touch()
    said: list[str] = []
    assert install_archive(recorded, archive, said.append) == archive
    assert {path.name for path in tmp_path.iterdir()} == {"spark-2.jsa", "launcher-1.jsa"}
    assert archive.read_text() == "classes"
    assert said == ["recorded spark-2.jsa: 0 MB"]


def test_its_name_changes_with_what_it_depends_on(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    before = archive_path("spark", [jar])
    assert before == archive_path("spark", [jar])
    assert before.name.startswith("spark-")
    assert archive_path("launcher", [jar]).name.removeprefix("launcher") == before.name.removeprefix("spark")
    jar.unlink()
    jar.write_text("rebuilt")
    assert archive_path("spark", [jar]) != before
