"""What Spark ships to a stream thread."""

from __future__ import annotations

from millrace.spark.stream_threads.run_thread import RunThread


def test_no_log_that_shows_it_has_the_token() -> None:
    made = RunThread(application="app", run="7", address="driver:1", token="a-secret", epoch=1, plans={})
    assert "driver:1" in repr(made)
    assert "a-secret" not in repr(made)
    assert "a-secret" not in str([made])
