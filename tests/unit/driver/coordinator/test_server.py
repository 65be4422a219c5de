from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.driver.coordinator.server import CoordinatorServer
from millrace.embedded.broker import free_ports
from millrace.spark.stream_threads import conversation
from millrace.spark.stream_threads.connection import (
    CoordinatorConnection,
    CoordinatorRefusedError,
    CoordinatorUnreachableError,
)
from millrace.spark.stream_threads.conversation import Ended
from millrace.spark.stream_threads.frames import Channel
from millrace.spark.stream_threads.messages import (
    Assign,
    Assignment,
    End,
    Goodbye,
    Hello,
    Report,
    from_thread_to_bytes,
)

LIMIT_S = 10.0


class Events:
    def __init__(self) -> None:
        self.seen: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def joined(self, connection, hello):
        self.seen.put(("joined", connection, hello))

    def received(self, connection, message):
        self.seen.put(("received", connection, message))

    def left(self, connection, reason):
        self.seen.put(("left", connection, reason))

    def next(self) -> tuple[Any, ...]:
        return self.seen.get(timeout=LIMIT_S)


def hello(**changes: Any) -> Hello:
    values: dict[str, Any] = {
        "application": "app",
        "run": "7",
        "epoch": 0,
        "slot": 0,
        "attempt": 0,
        "host": "h",
        "pid": 1,
        "process_start": 2,
        "cores": 1.0,
    }
    return Hello(**{**values, **changes})


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def server(events) -> Iterator[CoordinatorServer]:
    made = CoordinatorServer("127.0.0.1", "127.0.0.1", "token", application="app", run="7", lease_s=5.0, events=events)
    yield made
    made.close()


def test_a_thread_and_the_driver_speak_in_both_directions(server, events):
    thread = CoordinatorConnection(server.address, "token", hello())
    assert events.next() == ("joined", 1, hello())
    assign = Assign(1, (Assignment("0_0", "plan"),))
    server.send(1, assign)
    assert thread.take(LIMIT_S) == assign
    thread.send(Report(sequence=1, generation=1))
    assert events.next() == ("received", 1, Report(sequence=1, generation=1))
    thread.leave("the epoch has ended")
    assert events.next() == ("received", 1, Goodbye("the epoch has ended"))
    assert events.next()[:2] == ("left", 1)
    assert isinstance(thread.take(LIMIT_S), Ended)
    assert isinstance(thread.take(), Ended), "it stays the last word"


def test_each_connection_has_a_number_of_its_own(server, events):
    threads = [CoordinatorConnection(server.address, "token", hello(slot=slot)) for slot in range(3)]
    assert sorted(events.next()[1] for _ in threads) == [1, 2, 3]
    for thread in threads:
        thread.abandon("done")


def test_a_closed_connection_ends_behind_what_was_sent(server, events):
    thread = CoordinatorConnection(server.address, "token", hello())
    events.next()
    for number in range(100):
        server.send(1, Assign(number))
    server.send(1, End("enough"))
    server.close_connection(1, "enough")
    assert [thread.take(LIMIT_S) for _ in range(102)][-2:-1] == [End("enough")]


def test_the_end_of_the_driver_is_an_event_for_the_loop(server, events):
    thread = CoordinatorConnection(server.address, "token", hello())
    events.next()
    assert thread.lease_left_s > 0
    server.close()
    assert isinstance(thread.take(LIMIT_S), Ended)
    assert thread.lease_left_s == 0


def test_a_lease_is_renewed_by_what_the_driver_has_seen(events, monkeypatch):
    monkeypatch.setattr(conversation, "PULSE_S", 0.02)
    server = CoordinatorServer(
        "127.0.0.1", "127.0.0.1", "token", application="app", run="7", lease_s=0.5, events=events
    )
    thread = CoordinatorConnection(server.address, "token", hello())
    events.next()
    began = time.monotonic()
    while time.monotonic() - began < 1.0:
        assert thread.lease_left_s > 0
        assert thread.take(0.02) is None
    server.close()


def test_a_side_that_falls_silent_ends_the_connection(events, server, monkeypatch):
    monkeypatch.setattr(conversation, "SILENCE_S", 0.3)
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as stopped:
        channel = Channel(stopped, "token", is_driver=False)
        channel.send(from_thread_to_bytes(hello()))
        assert events.next()[0] == "joined"
        assert events.next() == ("left", 1, "nothing was heard for 0.3 s")


def test_another_token_is_refused(server, events):
    with pytest.raises(CoordinatorRefusedError, match="is not accepted") as caught:
        CoordinatorConnection(server.address, "guessed", hello())
    assert server.address in caught.value.message
    assert "h/1" in caught.value.message
    assert events.seen.empty()


def test_a_thread_of_an_older_run_is_refused(server, events):
    with pytest.raises(CoordinatorRefusedError):
        CoordinatorConnection(server.address, "token", hello(run="6"))
    assert events.seen.empty()


def test_a_driver_that_cannot_be_reached_is_named_with_host_and_port():
    (port,) = free_ports(1)
    with pytest.raises(
        CoordinatorUnreachableError, match=f"h/1 cannot reach the coordinator of app at 127.0.0.1:{port}"
    ):
        CoordinatorConnection(f"127.0.0.1:{port}", "token", hello(), connect_limit_s=0.5)


def test_a_thread_waits_for_a_driver_that_does_not_listen_yet(events):
    (port,) = free_ports(1)
    connected: queue.SimpleQueue[CoordinatorConnection] = queue.SimpleQueue()
    threading.Thread(target=lambda: connected.put(CoordinatorConnection(f"127.0.0.1:{port}", "token", hello()))).start()
    with pytest.MonkeyPatch.context() as patch:
        create = socket.create_server
        patch.setattr(socket, "create_server", lambda address, **options: create((address[0], port), **options))
        server = CoordinatorServer(
            "127.0.0.1", "127.0.0.1", "token", application="app", run="7", lease_s=5.0, events=events
        )
    assert events.next()[0] == "joined"
    connected.get(timeout=LIMIT_S).leave("done")
    server.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n" * 10, b""])
def test_a_stranger_is_closed_and_others_are_served(server, events, said):
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as stranger:
        # The server may have closed it before all is said.
        with contextlib.suppress(OSError):
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(LIMIT_S)
        while True:
            try:
                if not stranger.recv(1024):
                    break
            except ConnectionResetError:
                break
    thread = CoordinatorConnection(server.address, "token", hello())
    assert events.next()[0] == "joined"
    thread.leave("done")


def test_a_malformed_message_ends_the_connection(server, events):
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        channel = Channel(connection, "token", is_driver=False)
        channel.send(from_thread_to_bytes(hello()))
        assert events.next()[0] == "joined"
        channel.send(b'{"kind": "report"}')
        kind, number, reason = events.next()
        assert (kind, number) == ("left", 1)
        assert "malformed" in reason
