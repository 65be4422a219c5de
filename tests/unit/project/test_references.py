"""The generated pages of docs/ are what the code gives, and leave nothing out."""

from __future__ import annotations

import re

import pytest

from millrace import dsl
from millrace.config import PASSED_ON_PREFIXES, StreamsConfig
from millrace.metrics import EXPORTED_METRICS, METRICS, STANDBY_METRICS
from scripts.references.dsl import GROUPS
from scripts.references.pages import DOCS, PAGES


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
