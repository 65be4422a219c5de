"""Set-up, test runner and repository files."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from scripts import check
from scripts.run_tests import BesideOthers, ReportedTest, read_report, run, start, wait
from scripts.suite import Part, parts
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]


def run_tests(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.run_tests", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_every_directory_of_tests_belongs_to_a_part() -> None:
    listed = run_tests("--help").stdout
    for directory in (ROOT / "tests").iterdir():
        if directory.name != "bench" and any(directory.rglob("test_*.py")):
            assert directory.name in listed


def test_an_unknown_part_is_refused_with_those_that_there_are() -> None:
    result = run_tests("unti")
    assert result.returncode == 2
    assert "integration" in result.stderr


def test_a_failed_check_is_shown_whole_and_a_passed_one_by_its_last_line(capfd: pytest.CaptureFixture[str]) -> None:
    python = (sys.executable, "-c")
    assert check.main([(*python, "print('much'); print('passed')")]) == 0
    assert capfd.readouterr().out.splitlines()[1:] == ["passed"]
    failing = (*python, "import sys; print('what'); print('where', file=sys.stderr); sys.exit(3)")
    assert check.main([failing, (*python, "print('also ran')")]) == 1
    said = capfd.readouterr().out
    assert {"what", "where", "also ran"} <= set(said.splitlines())


def report(path: Path, *cases: str) -> Path:
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


def test_a_report_adds_the_phases_of_a_test_up_and_knows_failed_fixtures(tmp_path: Path) -> None:
    path = report(
        tmp_path / "part.xml",
        '<testcase classname="tests.a.test_b" name="test_c[1]" time="1.5"/>',
        '<testcase classname="tests.a.test_b" name="test_d" time="2"><failure/></testcase>',
        '<testcase classname="tests.a.test_b" name="test_d" time="0.5"><error/></testcase>',
    )
    assert read_report(path) == [
        ReportedTest("tests/a/test_b.py::test_c[1]", 1.5, failed=False),
        ReportedTest("tests/a/test_b.py::test_d", 2.5, failed=True),
    ]
    assert read_report(tmp_path / "none.xml") == []


def test_a_second_attempt_is_for_tests_that_kill_and_runs_them_alone() -> None:
    (integration,) = [part for part in parts() if part.name == "integration"]
    line = integration.line(again=True)
    assert line[-2] == "(not long and not alone) and kills"
    assert "--last-failed" in line


def test_a_second_attempt_of_any_part_is_of_one_test_after_the_other() -> None:
    distributed = {part.name for part in parts() if "-n" in part.line()}
    assert distributed >= {"unit", "parity", "integration", "airflow"}
    for part in parts():
        if part.directory is not None:
            words = part.line(again=True)
            assert not {"-n", "--dist", "loadfile", "worksteal", "--no-loadscope-reorder"}.intersection(words), (
                part.name
            )
            assert not any(word.isdecimal() for word in words), part.name


def beside(name: str, code: str) -> Part:
    return Part(name, "for a test", None, ("-c", code), beside_others=True)


def test_parts_beside_the_others_run_one_after_the_other_and_say_how_long_each_took(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    running = tmp_path / "running"
    path = f"import pathlib, time; path = pathlib.Path({str(running)!r})"
    alone = f"{path}; path.touch(exist_ok=False); time.sleep(0.3); path.unlink()"
    lane = BesideOthers([beside("first", alone), beside("second", f"{alone}; print('said'); raise SystemExit(3)")])
    lane.start()
    first, second = lane.finish()
    assert (first.ok, second.ok, second.outcome) == (True, False, "FAILED (exit code 3)")
    assert 0.3 < first.seconds < 30
    assert "second, which ran beside the others ===\nsaid" in capfd.readouterr().out
    assert lane.finish() == []


def test_nothing_runs_beside_what_comes_first(tmp_path: Path) -> None:
    ended, begun = tmp_path / "ended", tmp_path / "begun"
    first = f"import pathlib, time; time.sleep(0.5); pathlib.Path({str(ended)!r}).touch()"
    second = f"import pathlib; assert pathlib.Path({str(ended)!r}).exists(); pathlib.Path({str(begun)!r}).touch()"
    quick = Part("first", "for a test", None, ("-c", first), first=True)
    results = run([quick, beside("second", second)])
    assert [(each.part.name, each.ok) for each in results] == [("first", True), ("second", True)]
    assert begun.exists()
    assert [part.name for part in parts() if part.first] == ["check", "unit"]


def test_a_part_says_how_long_it_and_what_it_waited_for_computed() -> None:
    child = "import time\nwhile time.process_time() < 0.3: pass"
    waits = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {child!r}]); time.sleep(0.5)"
    begin = time.monotonic()
    ended = wait(part := beside("waits", waits), start(part), begin)
    assert ended.code == 0
    assert 0.3 <= ended.computed <= ended.seconds - 0.4
    assert ended.result().computed == ended.computed


def test_an_interrupted_run_interrupts_the_part_beside_it_and_begins_no_other(tmp_path: Path) -> None:
    begun, second = tmp_path / "begun", tmp_path / "second"
    first = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(600)"
    lane = BesideOthers([beside("first", first), beside("second", f"open({str(second)!r}, 'w')")])
    lane.start()
    eventually(begun.exists, expected=True)
    lane.stop()
    assert [each.ok for each in lane.finish()] == [False]
    assert not second.exists()


def test_an_interrupted_run_waits_until_the_part_has_ended_what_it_started(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    part = f"""
import pathlib, time
pathlib.Path({str(begun)!r}).touch()
try:
    time.sleep(600)
finally:
    time.sleep(0.5)
    pathlib.Path({str(ended)!r}).touch()
"""
    code = f"from tests.unit.project.test_scripts import beside, run; run([beside('alone', {part!r})])"
    running = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
    eventually(begun.exists, expected=True)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) != 0
    assert ended.exists()


def test_a_run_in_the_background_of_a_shell_can_interrupt_what_it_starts() -> None:
    code = """
import signal
from scripts import run_tests
def run(parts):
    print("interrupts:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    return []
signal.signal(signal.SIGINT, signal.SIG_IGN)
run_tests.run = run
run_tests.main(["check"])
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "interrupts: True" in ran.stdout


@pytest.mark.parametrize("script", ["scripts/setup.sh", ".ci/run"])
def test_scripts_can_be_run_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert subprocess.run(["sh", "-n", ROOT / script], check=False).returncode == 0


def fake_machine(tmp_path: Path, **programs: str) -> dict[str, str]:
    """An environment whose path has some basic tools and these shell scripts."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "sed", "head", "id", "env"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    for name, body in programs.items():
        program = tools / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    return {"PATH": str(tools), "HOME": str(tmp_path)}


def set_up(tmp_path: Path, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a copy of the set-up script in an empty checkout."""
    checkout = tmp_path / "checkout" / "scripts"
    checkout.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", checkout)
    programs = checkout.parent / ".venv" / "bin"
    programs.mkdir(parents=True)
    millrace = programs / "millrace"
    millrace.write_text(f'#!/bin/sh\necho "millrace $*" >> {tmp_path}/log\n')
    millrace.chmod(0o755)
    return subprocess.run(
        [checkout / "setup.sh", *options], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_set_up_takes_the_uv_that_is_there_and_installs_missing_java_by_apt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    installs = f'echo "apt-get $*" >> {log}; case "$*" in *openjdk*) cp {tmp_path}/java {tmp_path}/bin/java;; esac'
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    environment = fake_machine(tmp_path, uv=f'echo "uv $*" >> {log}', apt_get=installs, sudo='shift; exec "$@"')
    (tmp_path / "bin" / "cp").symlink_to(shutil.which("cp") or "")
    result = set_up(tmp_path, environment, "--prepared")
    assert result.returncode == 0, result.stderr
    lines = log.read_text().splitlines()
    assert "uv sync --locked --quiet" in lines
    assert lines[-1] == "millrace prepare"
    assert any("install openjdk-17-jre-headless" in line for line in lines)


def test_what_the_demo_needs_is_the_environment_and_java_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = fake_machine(
        tmp_path,
        uv=f'echo "uv $*" >> {log}',
        java="echo 'openjdk version \"17.0.1\"' >&2",
        apt_get=f"echo apt >> {log}",
    )
    assert set_up(tmp_path, environment).returncode == 0
    assert log.read_text().splitlines() == ["uv --version", "uv sync --locked --quiet"]


def test_without_apt_a_missing_java_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    result = set_up(tmp_path, fake_machine(tmp_path, uv="exit 0"))
    assert result.returncode == 1
    assert [line for line in result.stderr.splitlines() if line.startswith("error")] == [
        "error: Java 17 or newer was not found. Remedy: install it (Debian, Ubuntu: openjdk-17-jre-headless)"
    ]


def test_an_old_java_does_not_count(tmp_path: Path) -> None:
    old = "echo 'openjdk version \"11.0.2\"' >&2"
    result = set_up(tmp_path, fake_machine(tmp_path, uv="exit 0", java=old))
    assert result.returncode == 1


def test_what_set_up_and_the_checks_leave_behind_is_not_part_of_the_repository() -> None:
    makefile, ignored = (ROOT / "Makefile").read_text(), (ROOT / ".gitignore").read_text().splitlines()
    (removed,) = [line.split("rm -rf ")[1].split() for line in makefile.splitlines() if "rm -rf" in line]
    assert [name for name in removed if name not in {line.rstrip("/") for line in ignored}] == []


def test_the_licence_is_the_one_that_pyproject_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_dags_import_the_plugin_and_airflow_only() -> None:
    for file in (ROOT / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] in {"__future__", "airflow", "datetime", "millrace_airflow"}
            elif isinstance(node, ast.Import):
                pytest.fail(f"{file} imports {node.names[0].name}")
