"""The five-minute start as its reader types it: every command of the page, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from demo.leftovers import end_processes_of
from millrace.embedded.broker import free_ports
from millrace.home import HOME_VARIABLE, millrace_home
from millrace.install.home import SPECS_VARIABLE
from tests.unit.project.pages import ROOT, blocks, files

PAGE = ROOT / "docs" / "start.md"
OF_THE_CHECKOUT = "make setup"


def test_everything_that_the_page_says_works_in_its_order(tmp_path: Path) -> None:
    """In a directory of its own, on free ports; the environment is there already."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (home / "jars").symlink_to(millrace_home() / "jars")
    broker, queries = free_ports(2)

    def on_free_ports(text: str) -> str:
        return text.replace("9092", str(broker)).replace("7070", str(queries))

    for name, text in files(PAGE).items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(on_free_ports(text))
    first, *commands = blocks(PAGE, "sh")
    assert OF_THE_CHECKOUT in first
    environment = {
        **os.environ,
        HOME_VARIABLE: str(home),
        SPECS_VARIABLE: str(project / "config" / "apps"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    log = (tmp_path / "log").open("w+")
    try:
        done = subprocess.run(
            ["bash", "-ex", "-c", on_free_ports("\n".join(commands))],
            cwd=project,
            env=environment,
            # What goes on in the background would keep a pipe open.
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    finally:
        killed = end_processes_of(home)
    printed = (tmp_path / "log").read_text()
    assert done.returncode == 0, printed
    assert killed == {}, printed
    for words in ("1 passed", "RUNNING", '"orders": 500', "revenue-per-minute", "Delete"):
        assert words in printed, printed
