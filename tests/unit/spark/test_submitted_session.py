from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.spark import session

CONFIG = StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "localhost:1"})


def test_a_driver_that_spark_submit_started_looks_for_no_jars_in_its_packed_pyspark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[Any, ...]] = []

    def create(config: StreamsConfig, jars: tuple[Path, ...], class_archive: dict[str, str]) -> str:
        given.append((config, jars, class_archive))
        return "the session of Spark"

    def refuse(*_: object) -> None:
        raise NotADirectoryError("pyspark.zip/pyspark/jars")

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "create_session", create)
    monkeypatch.setattr(session, "class_archive_settings", refuse)
    monkeypatch.setattr(session, "resolve_jars", refuse)
    assert session.open_session(CONFIG).result(timeout=30) == "the session of Spark"
    assert given == [(CONFIG, (), {})]
