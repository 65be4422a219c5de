"""docs/testing.md and docs/handlers.md name what there is, and their examples run."""

from __future__ import annotations

import re
from typing import Any

import pytest

import millrace.handlers
import millrace.testing
from millrace.config import StreamsConfig
from tests.unit.apps.places import REPOSITORY

TESTING = (REPOSITORY / "docs" / "testing.md").read_text()
HANDLERS = (REPOSITORY / "docs" / "handlers.md").read_text()
METHODS = sorted(set(re.findall(r"`(Test\w+|TopologyTestDriver)\.(\w+)`", TESTING)))
PAGES = [pytest.param(TESTING, id="testing"), pytest.param(HANDLERS, id="handlers")]


def example(page: str) -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "example", "exec"), found)
    return found


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_what_the_page_names_exists(name: str, method: str) -> None:
    found = getattr(millrace.testing, name)
    assert hasattr(found, method) or method in found.__dataclass_fields__


def test_every_public_method_of_the_test_driver_is_on_the_page() -> None:
    ways_of_closing = {"close", "committed_offset", "store_kind", "is_window_store"}
    for name in millrace.testing.__all__:
        public = {(name, each) for each in vars(getattr(millrace.testing, name)) if not each.startswith("_")}
        named = {*METHODS, *((name, each) for each in ways_of_closing)}
        if name not in ("TestRecord", "TestInputTopic", "TestOutputTopic"):
            assert public <= named, name


def test_the_example_of_a_test_passes() -> None:
    example(TESTING)["test_words_are_counted"]()


def test_the_example_of_a_handler_answers() -> None:
    skip_small = example(HANDLERS)["skip_small"]
    context = millrace.handlers.ErrorHandlerContext(
        topic="clicks",
        partition=0,
        offset=3,
        headers=[],
        processor_node_id="n",
        task_id="0_0",
        timestamp=5,
        source_raw_key=b"k",
        source_raw_value=b"v",
    )
    answer = skip_small(context, None, ValueError("small"))
    assert answer.result is millrace.handlers.Result.RESUME
    (record,) = answer.dead_letter_queue_records
    assert (record.topic, record.key, record.value) == ("click-errors", b"k", b"v")


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_that_a_page_names_exist(page: str) -> None:
    settings = set(re.findall(r"`([a-z]+(?:\.[a-z]+){2,})`", page)) - {"millrace.testing"}
    assert settings <= {field.alias for field in StreamsConfig.model_fields.values()}


def test_the_classes_of_handlers_exist() -> None:
    for name in re.findall(r"`(ConsumerRecord|ProcessedRecord|ProducerRecord|Response)\b", HANDLERS):
        assert hasattr(millrace.handlers, name)
    for method in re.findall(r"`Response\.(\w+)\(", HANDLERS):
        assert callable(getattr(millrace.handlers.Response, method))
