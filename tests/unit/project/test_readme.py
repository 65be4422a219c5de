"""README's application does what README says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace.dsl import StreamsBuilder
from millrace.ops import load_spec
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TopologyTestDriver

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def application() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[0], "revenue.py", "exec"), names)
    return names


def test_the_application_has_about_thirty_lines() -> None:
    assert len(blocks("python")[0].splitlines()) <= 35


def test_the_test_that_readme_shows_passes(application: dict[str, Any]) -> None:
    exec(compile(blocks("python")[1], "test_revenue.py", "exec"), application)


def test_the_application_sends_each_order_where_readme_says(application: dict[str, Any]) -> None:
    builder = StreamsBuilder()
    application["build"](builder)
    with TopologyTestDriver(builder.build()) as driver:
        orders = driver.create_input_topic("orders", StringSerde(), application["ORDER"])
        for number, (shop, cents) in enumerate([("n", 100_000), ("s", 5), ("s", -5), ("n", 99_999)]):
            orders.pipe_input(f"o{number}", {"order": f"o{number}", "shop": shop, "cents": cents}, timestamp=number)
        large = driver.create_output_topic("large-orders", StringSerde(), application["ORDER"])
        assert [key for key, _ in large.read_key_values()] == ["o0"]
        revenue = driver.create_output_topic("revenue-per-minute", StringSerde(), JsonSerde())
        assert revenue.read_key_values_to_map() == {
            "n": {"minute": 0, "orders": 2, "cents": 199_999},
            "s": {"minute": 0, "orders": 1, "cents": 5},
        }


def test_the_specification_that_readme_shows_is_valid(tmp_path: Path) -> None:
    [text] = blocks("yaml")
    file = tmp_path / "revenue.yaml"
    file.write_text(text)
    spec = load_spec(file, environment={})
    assert spec.streams_config().application_id == "revenue"
    assert {topic["name"] for topic in yaml.safe_load(text)["topics"]} == {
        "orders",
        "large-orders",
        "revenue-per-minute",
    }


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_commands_that_readme_shows_are_there() -> None:
    from millrace.cli.application import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    shown = set(re.findall(r"millrace ([a-z]+)", "\n".join(blocks("sh"))))
    assert shown
    assert shown <= known
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^make ([a-z]+)", "\n".join(blocks("sh")), flags=re.MULTILINE)) <= targets
