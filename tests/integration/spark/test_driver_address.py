"""At which address workers reach a driver."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from millrace.config import ProcessingEngine, StreamsConfig
from millrace.spark.session import create_session, driver_address

for settings in ({}, {"spark.driver.host": "127.0.0.2", "spark.driver.bindAddress": "0.0.0.0"}):
    config = StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "localhost:1", **settings})
    session = create_session(config, ProcessingEngine.STREAM_THREADS, (), {})
    print("ADDRESS", *driver_address(session))
    assert session.range(10).count() == 10
    session.stop()
"""


def test_a_driver_with_a_local_master_is_on_the_loopback_address_unless_the_specification_says_another() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, env=None)
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line for line in done.stdout.splitlines() if line.startswith("ADDRESS")]
    assert said == ["ADDRESS 127.0.0.1 127.0.0.1", "ADDRESS 0.0.0.0 127.0.0.2"]
