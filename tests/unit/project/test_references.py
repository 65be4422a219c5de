"""The generated pages of docs/ are what the code gives, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace import dsl
from millrace.config import PASSED_ON_PREFIXES, StreamsConfig
from millrace.metrics import EXPORTED_METRICS, METRICS, STANDBY_METRICS
from scripts.references import environment
from scripts.references.dags import DAGS
from scripts.references.dsl import GROUPS
from scripts.references.pages import DOCS, PAGES
from tests.unit.project.pages import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_equals_the_generated_one(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run: make docs"


def test_the_pages_list_every_metric_and_every_setting() -> None:
    metrics = (DOCS / "metrics.md").read_text()
    assert all(f"| `{metric.name}` |" in metrics for metric in METRICS + STANDBY_METRICS + EXPORTED_METRICS)
    configuration = (DOCS / "configuration.md").read_text()
    keys = {name.replace("_", ".") for name in StreamsConfig.model_fields if name != "passed_on"}
    assert all(f"| `{key}` |" in configuration for key in keys)
    assert all(f"`{prefix}`" in configuration for prefix in PASSED_ON_PREFIXES)


def test_the_names_of_the_dsl_are_shown_without_what_is_internal() -> None:
    page = (DOCS / "dsl-reference.md").read_text()
    internal = r"\*args, \*\*kwds|inspect\._empty|@overload|<\w+ object|<function|<class|\w_contra|\w_co\b|typing\."
    assert not re.findall(rf".*(?:{internal}).*", page)
    sections = r"(?:Args|Attributes|Note|Source|Yields)"
    assert not re.findall(rf"^\s*{sections}:\s*$", page, re.MULTILINE), "a section of a docstring is shown as it is"
    private = re.findall(r"^.*[(\s|\[]_[a-zA-Z]\w*.*$", "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    assert not private


def test_every_public_name_of_the_dsl_is_in_one_group() -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(dsl.__all__) <= set(named)


CODE = ("jobs", "plugins", "dags", "demo", "docker", "config", "scripts", "tests")
FILES = ("docker-compose.yml", "Makefile")
NOT_FOR_PEOPLE = re.compile(r"MILLRACE_(TEST|BENCH)_\w+")
"""What tests and the benchmark tell processes of their own."""


def named_in_code() -> dict[str, str]:
    """Every variable that the code names, with a file that does. In tests only what is text counts."""
    found: dict[str, str] = {}
    paths = [path for each in CODE for path in (ROOT / each).rglob("*") if path.is_file()]
    for path in (*paths, *(ROOT / each for each in FILES)):
        if path.suffix == ".pyc" or path in (Path(environment.__file__), Path(__file__)):
            continue
        quoted = path.is_relative_to(ROOT / "tests")
        text = path.read_text(errors="replace")
        for name in re.findall(rf"""{'["$]' if quoted else "(?<![A-Z_])"}(MILLRACE_[A-Z_]*[A-Z])\b(?!_)""", text):
            found.setdefault(name, str(path.relative_to(ROOT)))
    return {name: path for name, path in found.items() if not NOT_FOR_PEOPLE.fullmatch(name)}


def test_every_environment_variable_of_the_code_is_told_and_none_that_it_does_not_have() -> None:
    told = [variable.name for group in environment.GROUPS.values() for variable in group]
    assert len(told) == len(set(told))
    code = named_in_code()
    assert {"MILLRACE_HOME", "MILLRACE_STATE_DIR", "MILLRACE_DRILLS_RECORD"} <= set(code)
    assert {name: path for name, path in code.items() if name not in told} == {}
    # The DAG files say the ends of these names.
    schedules = {name for name in told if name.startswith("MILLRACE_SCHEDULE_")}
    assert len(schedules) == len(re.findall(r"\bschedule\(", "".join(f.read_text() for f in DAGS.glob("*.py"))))
    assert set(told) - schedules <= set(code)
