"""``import millrace`` gives users every name that they need, and costs nothing until they ask for one."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import millrace
from millrace import errors
from millrace.dsl import aggregators
from scripts.references.dsl import GROUPS
from tests.unit.project.pages import ROOT

HEAVY = {"confluent_kafka", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rocksdict", "structlog"}
ASK = "import sys, millrace, millrace.errors; print(*sys.modules)"


def type_checked() -> dict[str, str]:
    """What mypy and editors see: name to the module that it is imported from."""
    tree = ast.parse(inspect.getsource(millrace))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: f"{each.module}.{alias.name}" if alias.asname else str(each.module)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }


def test_importing_it_imports_no_library_and_no_package_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert not imported & HEAVY
    assert {name for name in imported if name.startswith("millrace")} == {"millrace", "millrace.errors"}


def test_every_name_of_the_reference_is_there() -> None:
    groups = dict(GROUPS)
    assert groups.pop("Aggregators") == tuple(aggregators.__all__)
    assert millrace.agg is aggregators
    named = {name for names in groups.values() for name in names}
    assert sorted(named - {*millrace.__all__}) == []


def test_every_public_error_is_there() -> None:
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert kinds <= {*millrace.__all__}


@pytest.mark.parametrize("package", ["dsl", "serdes", "testing"])
def test_every_public_name_of_a_package_for_users_is_there(package: str) -> None:
    # The table of names by which a setting says a serde is for the configuration.
    public = {*import_module(f"millrace.{package}").__all__} - {"NAMED_SERDES"}
    assert sorted(public - {*millrace.__all__}) == []


def test_what_mypy_sees_is_what_comes() -> None:
    seen = type_checked()
    assert sorted(seen) == sorted(millrace.__all__)
    for name, module in seen.items():
        expected = aggregators if name == "agg" else getattr(import_module(module), name)
        assert getattr(millrace, name) is expected, name
    assert {*millrace.__all__} <= {*dir(millrace)}


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'millrace' has no attribute 'KStreams'") as caught:
        _ = millrace.KStreams  # type: ignore[attr-defined]
    assert caught.value.name == "KStreams"
    with pytest.raises(ImportError, match="KStreams"):
        from millrace import KStreams  # type: ignore[attr-defined]  # noqa: F401


def test_packages_can_still_be_imported_from_it() -> None:
    code = (
        "from millrace import errors, launch; import millrace.dsl as d; assert launch.observe and errors and d.KStream"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_pages_for_users_use_the_one_import() -> None:
    for page in ("start.md", "cookbook.md", "testing.md", "handlers.md"):
        text = (ROOT / "docs" / page).read_text()
        assert "from millrace import" in text, page
        assert "from millrace." not in text, page
