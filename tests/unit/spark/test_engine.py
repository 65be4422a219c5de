from __future__ import annotations

import pytest

from millrace.config import ProcessingEngine, StreamsConfig
from millrace.dsl import Consumed, StreamsBuilder
from millrace.errors import ConfigurationError
from millrace.serdes import StringSerde
from millrace.spark.engine import engine_of
from millrace.spark.session import own_settings
from millrace.topology.topology import FrozenTopology

TEXT = Consumed.with_(StringSerde(), StringSerde())


def config(**settings: object) -> StreamsConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "localhost:1", **named})


def topology(*, framed: bool) -> FrozenTopology:
    builder = StreamsBuilder()
    stream = builder.stream("in", TEXT)
    (stream.transform_frame(lambda frame: frame) if framed else stream).to("out")
    return builder.build()


def test_stream_threads_execute_what_has_no_frame_functions_unless_the_configuration_says_otherwise() -> None:
    assert engine_of(config(), topology(framed=False)) is ProcessingEngine.STREAM_THREADS
    assert engine_of(config(), topology(framed=True)) is ProcessingEngine.MICRO_BATCHES
    chosen = config(processing_engine="micro-batches")
    assert engine_of(chosen, topology(framed=False)) is ProcessingEngine.MICRO_BATCHES


def test_frame_functions_have_no_standby_copies_of_threads() -> None:
    assert engine_of(config(num_standby_replicas=1), topology(framed=False)) is ProcessingEngine.STREAM_THREADS
    with pytest.raises(ConfigurationError, match=r"num\.standby\.replicas is 1.*frame functions.*`millrace standby`"):
        engine_of(config(num_standby_replicas=1), topology(framed=True))


def test_frame_functions_cannot_idle() -> None:
    assert engine_of(config(max_task_idle_ms=5), topology(framed=False)) is ProcessingEngine.STREAM_THREADS
    with pytest.raises(ConfigurationError, match=r"max\.task\.idle\.ms is 5.*frame functions \(KSTREAM-SOURCE"):
        engine_of(config(max_task_idle_ms=5), topology(framed=True))


def test_frame_functions_have_no_bound_of_what_a_commit_merges() -> None:
    assert engine_of(config(statestore_cache_max_bytes=0), topology(framed=True)) is ProcessingEngine.MICRO_BATCHES
    with pytest.raises(
        ConfigurationError, match=r"statestore\.cache\.max\.bytes is 5.*`max.batch.records`.*leave it out"
    ):
        engine_of(config(statestore_cache_max_bytes=5), topology(framed=True))


@pytest.mark.parametrize("process", ["driver", "executor"])
def test_the_optimising_compiler_is_kept_for_machines_that_records_pass(process: str) -> None:
    options = {
        engine: own_settings(config(), engine)[f"spark.{process}.extraJavaOptions"] for engine in ProcessingEngine
    }
    assert options == {
        ProcessingEngine.STREAM_THREADS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        ProcessingEngine.MICRO_BATCHES: "-XX:+UseParallelGC",
    }


def test_java_is_generated_for_plans_that_records_pass_only() -> None:
    generating = ["spark.sql.codegen.factoryMode", "spark.sql.codegen.wholeStage"]
    threads, batches = (
        own_settings(config(), engine) for engine in (ProcessingEngine.STREAM_THREADS, ProcessingEngine.MICRO_BATCHES)
    )
    assert [threads[key] for key in generating] == ["NO_CODEGEN", "false"]
    assert not {*generating} & {*batches}
