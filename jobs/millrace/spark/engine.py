"""The engine that executes an application on Spark, and the settings of the virtual machines for it."""

from __future__ import annotations

from millrace.config import WITHOUT_THREADS, ProcessingEngine, StreamsConfig
from millrace.errors import ConfigurationError
from millrace.kafka.java import QUICK_TO_START
from millrace.topology.topology import FrozenTopology

JAVA_OPTIONS = {
    # Half the machine's time per record of the default collector on two cores: nothing here needs its short pauses.
    ProcessingEngine.MICRO_BATCHES: "-XX:+UseParallelGC",
    # No record passes the machine. What it does is start, and the optimising compiler alone would take a third of that.
    ProcessingEngine.STREAM_THREADS: " ".join(QUICK_TO_START),
}
"""Options of the driver's and the executors' virtual machines that suit what executes an application."""

SESSION_SETTINGS = {
    ProcessingEngine.MICRO_BATCHES: {},
    # Generating and compiling Java for plans of one row takes longer than walking them.
    ProcessingEngine.STREAM_THREADS: {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
}
"""Spark's settings beside those."""


def engine_of(config: StreamsConfig, topology: FrozenTopology) -> ProcessingEngine:
    """Returns the engine of an application: the configured one, or micro-batches if it has frame functions.

    Args:
        config: its configuration.
        topology: its topology.

    Raises:
        ConfigurationError: it has frame functions, and a setting that only stream threads can keep to.
    """
    framed = topology.framed_sources
    if not framed or config.processing_engine is ProcessingEngine.MICRO_BATCHES:
        return config.processing_engine
    for name, value in config.for_stream_threads.items():
        raise ConfigurationError(
            f"{name} is {value}, but micro-batches execute the application, since it has frame functions "
            f"({', '.join(framed)}): {WITHOUT_THREADS[name]}.",
            remedy="leave it out, or do without frame functions",
        )
    return ProcessingEngine.MICRO_BATCHES
