from __future__ import annotations

from pathlib import Path

import pytest

from millrace.launch.sources import installed_packages, library_sources, sources_of


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A package of an application, and modules beside it."""
    files = {
        "shop/__init__.py": "from shop import settings",
        "shop/settings.py": "",
        "shop/payments.py": (
            "import json, numpy, typing\nfrom typing import TYPE_CHECKING\nfrom millrace.dsl import StreamsBuilder\n"
            "from . import rules\nfrom .deep.limits import LIMIT\nfrom helpers import *\n"
            "if TYPE_CHECKING:\n    from shop import only_types\n"
            "def build(builder):\n    import shop.late\n"
        ),
        "shop/rules.py": "import shop.payments",
        "shop/deep/__init__.py": "",
        "shop/deep/limits.py": "LIMIT = 5",
        "shop/late.py": "from .. import above",
        "shop/only_types.py": "",
        "shop/not_imported.py": "",
        "helpers.py": "import broken_one",
        "broken_one.py": "def (",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_sources_are_the_module_and_what_it_imports_wherever_it_does(code: Path) -> None:
    found = sources_of("shop.payments", [str(code)])
    assert sorted(found) == [
        "broken_one",
        "helpers",
        "shop",
        "shop.deep",
        "shop.deep.limits",
        "shop.late",
        "shop.payments",
        "shop.rules",
        "shop.settings",
    ]
    assert found["shop"] == (code / "shop" / "__init__.py").resolve()


def test_a_module_that_is_not_there_has_no_sources(code: Path) -> None:
    assert sources_of("nowhere.at_all", [str(code)]) == {}
    assert sorted(sources_of("shop.nowhere", [str(code)])) == ["shop", "shop.settings"]


def test_what_is_installed_has_a_version_and_is_no_source(tmp_path: Path) -> None:
    assert sources_of("numpy") == {}
    assert sources_of("json") == {}
    (tmp_path / "Some_Thing-1.2.3.dist-info").mkdir()
    (tmp_path / "other-4.egg-info").mkdir()
    assert installed_packages([str(tmp_path), "/nowhere"]) == {"some-thing": "1.2.3", "other": "4"}


def test_of_millrace_itself_only_what_drivers_run_counts() -> None:
    names = library_sources()
    assert "millrace/task/records.py" in names
    others = {"install", "launch", "operations", "supervise", "insight", "cli", "testing"}
    assert not [name for name in names if name.split("/")[1] in others]


def test_packages_without_a_file_of_their_own_are_found_although_nothing_has_imported_them(tmp_path: Path) -> None:
    for name in ("spaced/inner/deepest/app.py", "spaced/inner/rules.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from spaced.inner import rules")
    found = sources_of("spaced.inner.deepest.app", [str(tmp_path)])
    assert sorted(found) == ["spaced.inner.deepest.app", "spaced.inner.rules"]
