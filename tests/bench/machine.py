"""Describes the machine and the software of a measurement, without anything that names the machine."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from millrace.kafka.jars import KAFKA_VERSION
from millrace.kafka.java import find_java


def describe_machine() -> dict[str, str]:
    """What the figures depend on: name of the fact to its value, in the order in which to show it."""
    return {
        "Processor": f"{_processor()}, {psutil.cpu_count()} cores",
        "Memory": f"{psutil.virtual_memory().total / (1 << 30):.0f} GiB",
        "System": f"{platform.system()} {platform.release().split('-')[0]}",
        "Java": _java(),
        "Python": platform.python_version(),
        "Kafka broker and Kafka Streams": KAFKA_VERSION,
        "Spark": version("pyspark"),
        "librdkafka (confluent-kafka)": version("confluent-kafka"),
        "RocksDB (rocksdict)": version("rocksdict"),
        "pyarrow": version("pyarrow"),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    told = subprocess.run([find_java(), "-version"], capture_output=True, text=True, timeout=30, check=True)
    return told.stderr.splitlines()[0].split('"')[1]
