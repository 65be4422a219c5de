from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.config import ProcessingEngine, StreamsConfig
from millrace.spark import session

CONFIG = StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "localhost:1"})
THREADS = ProcessingEngine.STREAM_THREADS


def test_a_driver_that_spark_submit_started_looks_for_no_jars_in_its_packed_pyspark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[Any, ...]] = []

    def create(
        config: StreamsConfig,
        engine: ProcessingEngine,
        jars: tuple[Path, ...],
        class_archive: dict[str, str],
        context: Future[Any],
    ) -> str:
        given.append((config, engine, jars, class_archive))
        context.set_exception(RuntimeError("no workers here"))
        return "the session of Spark"

    def refuse(*_: object) -> None:
        raise NotADirectoryError("pyspark.zip/pyspark/jars")

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "create_session", create)
    monkeypatch.setattr(session, "class_archive_settings", refuse)
    monkeypatch.setattr(session, "resolve_jars", refuse)
    start = session.open_session(CONFIG, THREADS)
    assert start.session.result(timeout=30) == "the session of Spark"
    assert str(start.workers.exception(timeout=30)) == "no workers here"
    assert given == [(CONFIG, THREADS, (), {})]


def test_a_submitted_driver_adds_the_secrets_that_the_submission_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}

    class Builder:
        def config(self, key: str, value: str) -> Builder:
            given[key] = value
            return self

        def getOrCreate(self) -> Any:  # noqa: N802 - Spark's name
            return SimpleNamespace()

    class Context:
        @staticmethod
        def getOrCreate(settings: object) -> Any:  # noqa: N802 - Spark's name
            return SimpleNamespace(setLogLevel=lambda level: None)

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=Builder()))
    monkeypatch.setattr(session, "SparkContext", Context)
    monkeypatch.setattr(session, "SparkConf", dict)
    settings = {"spark.hadoop.fs.s3a.secret.key": "k", "spark.executor.memory": "1g", "sasl.password": "p"}
    own = {"application.id": "a", "bootstrap.servers": "localhost:1", "sasl.username": "u", **settings}
    session.create_session(StreamsConfig.from_mapping(own), THREADS, (), {})
    assert given == {"spark.hadoop.fs.s3a.secret.key": "k"}
