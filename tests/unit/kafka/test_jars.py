from __future__ import annotations

import json
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millrace.errors import PreflightError
from millrace.kafka import jars as jars_module
from millrace.kafka.jars import JarSet, class_path, resolve_jars

SET = JarSet(name="some-set-1", coordinates=("org.example:thing:1",))

# Stands in for `java -jar ivy.jar`: it notes each run, waits a moment, and puts jars where -retrieve says.
_FAKE_JAVA = """#!{python}
import pathlib, sys, time
arguments = sys.argv[1:]
if arguments == ["-version"]:
    print('openjdk version "21.0.1"', file=sys.stderr)
    sys.exit()
home = pathlib.Path({home!r})
with (home / "runs").open("a") as runs:
    runs.write("run\\n")
time.sleep(0.3)
target = pathlib.Path(arguments[arguments.index("-retrieve") + 1]).parent
(target / "thing-1.jar").write_bytes(b"12345")
if (home / "fail").exists():
    print(":: UNRESOLVED DEPENDENCIES ::")
    print(":: org.example#thing;1: not found")
    sys.exit(1)
(target / "needed-2.jar").write_bytes(b"123")
print("[SUCCESSFUL ] org.example#thing;1!thing.jar (3ms)")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_FAKE_JAVA.format(python=sys.executable, home=str(tmp_path)))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return tmp_path


def _runs(home: Path) -> int:
    return len((home / "runs").read_text().splitlines())


def test_a_set_is_resolved_once_and_its_progress_told(home: Path) -> None:
    lines: list[str] = []
    resolved = resolve_jars(SET, home=home, progress=lines.append)
    assert [jar.name for jar in resolved] == ["needed-2.jar", "thing-1.jar"]
    assert all(jar.is_file() and jar.is_absolute() for jar in resolved)
    assert class_path(resolved) == f"{resolved[0]}:{resolved[1]}"
    assert any("org.example#thing;1!thing.jar" in line for line in lines)
    assert resolve_jars(SET, home=home, progress=lines.append) == resolved
    assert _runs(home) == 1


def test_parallel_calls_resolve_once(home: Path) -> None:
    together = threading.Barrier(4)

    def resolve(_: int) -> tuple[Path, ...]:
        together.wait(10)
        return resolve_jars(SET, home=home, progress=lambda _: None)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(resolve, range(4)))) == 1
    assert _runs(home) == 1


def test_a_failed_resolution_leaves_nothing_and_names_what_is_missing(home: Path) -> None:
    (home / "fail").touch()
    with pytest.raises(PreflightError, match=r"some-set-1.*org\.example#thing;1: not found.*MILLRACE_IVY_SETTINGS"):
        resolve_jars(SET, home=home, progress=lambda _: None)
    assert [path.name for path in (home / "jars").iterdir()] == [".lock"]
    (home / "fail").unlink()
    assert len(resolve_jars(SET, home=home, progress=lambda _: None)) == 2


def test_a_set_that_lost_a_jar_is_resolved_again(home: Path) -> None:
    first = resolve_jars(SET, home=home, progress=lambda _: None)
    first[0].unlink()
    assert resolve_jars(SET, home=home, progress=lambda _: None) == first
    assert _runs(home) == 2


def test_the_manifest_names_every_jar_with_its_size(home: Path) -> None:
    resolve_jars(SET, home=home, progress=lambda _: None)
    manifest = json.loads((home / "jars" / "some-set-1" / "jars.json").read_text())
    assert manifest == {"needed-2.jar": 3, "thing-1.jar": 5}


def test_excluded_modules_and_roots_are_in_the_module_that_ivy_reads() -> None:
    text = jars_module._ivy_module(JarSet(name="s", coordinates=("a:b:1",), excluded_modules=("c:d",)))
    assert '<dependency org="a" name="b" rev="1"' in text
    assert '<exclude org="c" module="d"/>' in text


def test_a_single_file_of_another_type_is_named_with_its_classifier_and_type() -> None:
    archive = JarSet(name="archive-1", coordinates=("org.example:app:1:all@tar.gz", "org.example:thing:2"))
    module = jars_module._ivy_module(archive)
    assert '<artifact name="app" type="tar.gz" ext="tar.gz" m:classifier="all"/>' in module
    assert module.count('transitive="false"') == 1
    assert jars_module._archive_types(archive) == ["tar.gz"]
    assert jars_module._archive_types(SET) == []
