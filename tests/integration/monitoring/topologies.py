"""What the proof of rules and dashboards runs."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.handlers import ErrorHandlerContext, Response, dead_letters_for
from millrace.serdes import LongSerde, StringSerde
from tests.application import topic

FAIL_VARIABLE = "MILLRACE_TEST_FAIL"
"""A file; while it is there, a record that is too large fails its batch. Otherwise it is a dead-letter record."""
TEXT = StringSerde()


def fail_or_go_on(context: ErrorHandlerContext, _record: Any, error: Exception) -> Response:
    """The application's handler."""
    answer = Response.fail if Path(os.environ[FAIL_VARIABLE]).exists() else Response.resume
    return answer(dead_letters_for(topic("dead-letters"), context, error))


def counting(builder: StreamsBuilder) -> None:
    """Copies to a topic of small records, and counts by key, and by key and window of ten seconds."""
    stream = builder.stream(topic("in"), Consumed.with_(TEXT, TEXT))
    stream.to(topic("small"), Produced.with_(TEXT, TEXT))
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("by-key").with_caching_disabled()).to_stream().to(
        topic("out"), Produced.with_(TEXT, LongSerde())
    )
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    grouped.windowed_by(windows).count(Materialized.as_("by-window"))
