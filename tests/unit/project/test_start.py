"""The application of the five-minute start does what the page says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from millrace.dsl import StreamsBuilder
from millrace.install.spec import load_spec
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TopologyTestDriver
from tests.unit.project.pages import ROOT, blocks, files

FILES = files(ROOT / "docs" / "start.md")


@pytest.fixture
def revenue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's application, imported from files as the page names them."""
    for name in ("revenue.py", "test_revenue.py"):
        (tmp_path / name).write_text(FILES[name])
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("revenue")


def test_the_page_has_its_files() -> None:
    assert set(FILES) == {"revenue.py", "test_revenue.py", "config/apps/revenue.yaml", "try_revenue.py"}


def test_the_test_that_the_page_shows_passes(revenue: ModuleType) -> None:
    importlib.import_module("test_revenue").test_the_orders_of_a_minute_are_added_up()


def sums(build: Any, orders_serde: JsonSerde) -> dict[str, Any]:
    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(builder.build()) as driver:
        orders = driver.create_input_topic("orders", StringSerde(), orders_serde)
        for number, (shop, cents) in enumerate([("n", 100_000), ("s", 5), ("s", -5), ("n", 99_999)]):
            orders.pipe_input(f"o{number}", {"order": f"o{number}", "shop": shop, "cents": cents}, timestamp=number)
        return driver.create_output_topic("revenue-per-minute", StringSerde(), JsonSerde()).read_key_values_to_map()


def test_readme_shows_a_part_of_the_same_application(revenue: ModuleType) -> None:
    [excerpt] = blocks(ROOT / "README.md", "python")
    names = dict(vars(revenue))
    exec(compile(f"from __future__ import annotations\n{excerpt}", "README.md", "exec"), names)
    expected = {
        "n": {"minute": 0, "orders": 2, "cents": 199_999},
        "s": {"minute": 0, "orders": 1, "cents": 5},
    }
    assert sums(revenue.build, revenue.ORDER) == expected
    assert sums(names["build"], revenue.ORDER) == expected


def test_the_specification_is_valid_and_has_the_topics_that_are_used(tmp_path: Path, revenue: ModuleType) -> None:
    text = FILES["config/apps/revenue.yaml"]
    file = tmp_path / "revenue.yaml"
    file.write_text(text)
    assert load_spec(file, environment={}).streams_config().application_id == "revenue"
    topics = {topic["name"] for topic in yaml.safe_load(text)["topics"]}
    assert topics == {"orders", "large-orders", "revenue-per-minute"}
    for topic in ("orders", "revenue-per-minute"):
        assert f'"{topic}"' in FILES["try_revenue.py"]
