"""Code that the pages show runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from millrace.install.spec import spec_file_of
from scripts.references.pages import PAGES as GENERATED
from tests.unit.project.pages import PAGES, ROOT, blocks, files, title

SAMPLES = [
    (title(page), text)
    for page in PAGES
    if str(page.relative_to(ROOT / "docs" if page.is_relative_to(ROOT / "docs") else ROOT)) not in GENERATED
    for text in blocks(page, "python")
]
FOR_AIRFLOW = [(page, text) for page, text in SAMPLES if "airflow" in text]
IN_A_DAG = """
import sys
from airflow.sdk import DAG
with DAG("sample"):
    exec(compile(sys.stdin.read(), "sample", "exec"), {})
"""


def test_what_is_for_airflow_makes_tasks(tmp_path: Path) -> None:
    """All of it in one process: it takes Airflow seconds to be imported."""
    assert len(FOR_AIRFLOW) >= 4
    done = subprocess.run(
        [sys.executable, "-c", IN_A_DAG],
        input="\n".join(text for _, text in FOR_AIRFLOW),
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "MILLRACE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "text"), SAMPLES)
def test_every_sample_is_run_by_some_test(page: str, text: str) -> None:
    """The start's by ``tests/integration/start``, README's by ``test_start.py``, recipes by ``test_cookbook.py``."""
    compile(text, page, "exec")
    if page in ("docs/testing.md", "docs/handlers.md"):
        return  # by test_testing_pages.py, which takes all that these pages have
    of_start = text in files(ROOT / "docs" / "start.md").values() or page == "README.md"
    assert of_start or page == "docs/cookbook.md" or (page, text) in FOR_AIRFLOW


@pytest.mark.parametrize(("page", "text"), [(title(page), text) for page in PAGES for text in blocks(page, "yaml")])
def test_a_specification_that_a_page_shows_is_valid(page: str, text: str) -> None:
    """A part of one stands for the whole; secrets are in files that only the reader has."""
    shown = yaml.safe_load(re.sub(r"\$\{(?:file|dir):[^}]*\}", "${SECRET}", text))
    document = {"name": "sample", "module": "apps.sample:build", **shown}
    document["config"] = {"bootstrap.servers": "localhost:9092", **document.get("config", {})}
    spec_file_of(document, where=page, environment={"SECRET": "known"})
