"""Threads that Spark runs and that the driver has not heard of."""

from __future__ import annotations

import time

import pytest

from millrace.driver.coordinator.server import CoordinatorServer
from millrace.embedded.broker import free_ports
from millrace.spark.stream_threads import run_thread
from millrace.spark.stream_threads.connection import (
    CoordinatorConnection,
    CoordinatorUnreachableError,
)
from millrace.spark.stream_threads.launched import LaunchedThread, described, unconnected
from millrace.spark.stream_threads.messages import FromThread, Hello
from tests.waiting import eventually

HELLO = Hello("app", "7", 1, 0, 0, "h", 1, 1, 1.0)
LAUNCHED = [LaunchedThread(number, f"h{number}", 6.0 - number) for number in range(5)]


def test_those_that_have_had_time_and_are_not_connected_are_missing() -> None:
    assert [each.slot for each in unconnected(LAUNCHED, [1], after_s=4.0)] == [0, 2]


def test_they_are_named_with_their_hosts_and_what_they_must_reach() -> None:
    assert described([], "driver:1") == ""
    assert described(LAUNCHED[:1], "driver:1") == (
        "stream thread 0 on h0 cannot reach the coordinator at driver:1: let the workers' hosts connect to "
        "the driver at that name and port"
    )
    many = described(LAUNCHED, "driver:1")
    assert many.startswith("stream threads 0 on h0, 1 on h1, 2 on h2 and 2 more cannot")


class Joined:
    """Takes the threads that a coordinator's server welcomes."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def joined(self, connection: int, hello: Hello) -> None:
        self.threads.append(hello.thread)

    def received(self, connection: int, message: FromThread) -> None:
        pass

    def left(self, connection: int, reason: str) -> None:
        pass


def test_a_thread_that_cannot_reach_its_driver_tries_until_it_can() -> None:
    (port,) = free_ports(1)
    attempts: list[str] = []
    servers: list[CoordinatorServer] = []
    joined = Joined()

    def connect() -> CoordinatorConnection:
        try:
            return CoordinatorConnection(f"127.0.0.1:{port}", "token", HELLO, connect_limit_s=0.0)
        except CoordinatorUnreachableError as error:
            attempts.append(error.message)
            if len(attempts) == 3:
                servers.append(
                    CoordinatorServer(
                        "127.0.0.1",
                        "127.0.0.1",
                        "token",
                        port=port,
                        application="app",
                        run="7",
                        lease_s=9,
                        events=joined,
                    )
                )
            raise

    connection = run_thread.connected(connect)
    try:
        assert len(attempts) == 3
        assert f"cannot reach the coordinator of app at 127.0.0.1:{port}" in attempts[0]
        assert connection.lease_left_s > 0
        assert servers[0].address == f"127.0.0.1:{port}"
        # The thread is welcomed before the driver is told of it.
        eventually(lambda: joined.threads, [HELLO.thread])
    finally:
        connection.abandon("the test ends")
        servers[0].close()


def test_a_thread_whose_parent_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([1, 1, 2])
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    attempts: list[float] = []

    def connect() -> CoordinatorConnection:
        attempts.append(time.monotonic())
        raise CoordinatorUnreachableError("cannot reach it")

    with pytest.raises(CoordinatorUnreachableError):
        run_thread.connected(connect)
    assert len(attempts) == 2
