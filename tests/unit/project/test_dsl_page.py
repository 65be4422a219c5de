"""docs/dsl.md names what there is, and nothing else."""

from __future__ import annotations

import re

import pytest

from millrace import dsl
from millrace.config import StreamsConfig
from tests.unit.apps.places import REPOSITORY

PAGE = (REPOSITORY / "docs" / "dsl.md").read_text()
METHODS = sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)[`(]", PAGE)))
CLASSES = sorted(set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE)))
OF_TOPICS = {"message.timestamp.after.max.ms"}
SETTINGS = sorted(set(re.findall(r"`([a-z]+(?:\.[a-z]+){2,})`", PAGE)) - {"millrace.dsl.aggregators"} - OF_TOPICS)


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_method_that_the_page_names_exists(name: str, method: str) -> None:
    assert callable(getattr(getattr(dsl, name), method))


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_that_the_page_names_exists(name: str) -> None:
    assert name in dsl.__all__


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_the_page_names_exists(name: str) -> None:
    assert name in {field.alias for field in StreamsConfig.model_fields.values()}


def test_the_page_was_read() -> None:
    assert len(METHODS) > 50
    assert len(CLASSES) > 5
    assert len(SETTINGS) >= 2


def test_every_public_method_of_streams_and_tables_is_on_the_page() -> None:
    special = {("KStream", "transform_frame"), ("KTable", "queryable_store_name")}
    for name in ("KStream", "KTable", "KGroupedStream", "KGroupedTable"):
        methods = {(name, method) for method in vars(getattr(dsl, name)) if not method.startswith("_")}
        assert methods - set(METHODS) <= special
