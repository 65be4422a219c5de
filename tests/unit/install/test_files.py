from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.install.files import append_journal, read_journal, read_json, strict_json, write_json
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.base import rotate_log
from millrace.install.locks import application_lock


def test_numbers_that_json_does_not_know_become_null() -> None:
    """Case A06."""
    value = {"lag": math.nan, "rate": math.inf, 3: [-math.inf, 1.5], "rest": ("a", None)}
    assert strict_json(value) == {"lag": None, "rate": None, "3": [None, 1.5], "rest": ["a", None]}


def test_a_file_that_is_no_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("<html>")
    with pytest.raises(OperationError, match=r"a\.json cannot be read"):
        read_json(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(OperationError, match="not an object"):
        read_json(tmp_path / "b.json")
    assert read_json(tmp_path / "none.json") is None


def test_a_written_file_is_whole_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    write_json(tmp_path / "a.json", {"a": 2})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_journal_keeps_its_order_and_survives_a_cut_line(tmp_path: Path) -> None:
    directory = ApplicationDirectory(tmp_path)
    append_journal(directory, "deploy", "launch", rate=math.nan)
    with directory.journal.open("a") as journal:
        journal.write('{"at": "cut')
        journal.write("\n")
    append_journal(directory, "stop", "ended")
    assert [line["what"] for line in read_journal(directory)] == ["launch", "ended"]


_HOLD = """
import sys, threading
from pathlib import Path
from millrace.install.locks import application_lock
from millrace.install.home import ApplicationDirectory
with application_lock(ApplicationDirectory(Path(sys.argv[1]))):
    print("held", flush=True)
    threading.Event().wait(60)
"""


def test_a_lock_is_waited_for_within_a_limit_and_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    directory = ApplicationDirectory(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(OperationError, match="has held its lock"),
            application_lock(directory, timeout_s=0.2),
        ):
            pytest.fail("two operations at once")
        holder.kill()
    with application_lock(directory, timeout_s=5):
        assert directory.operation_lock.exists()


def test_the_last_logs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    for number in range(8):
        rotate_log(log)
        log.write_text(str(number))
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"driver.log": "7", **{f"driver.log.{n}": str(7 - n) for n in range(1, 6)}}
