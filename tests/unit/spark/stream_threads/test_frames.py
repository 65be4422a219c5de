from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from millrace.spark.stream_threads import frames
from millrace.spark.stream_threads.frames import Channel, MessageError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    for each in (one, other):
        each.settimeout(5)
    yield one, other
    one.close()
    other.close()


def channels(pair, driver_token="t", thread_token="t") -> tuple[Channel, Channel]:
    made: list[Channel] = []
    thread = threading.Thread(target=lambda: made.append(Channel(pair[0], driver_token, is_driver=True)))
    thread.start()
    other = Channel(pair[1], thread_token, is_driver=False)
    thread.join()
    return made[0], other


def test_messages_come_in_order_in_both_directions(pair):
    driver, thread = channels(pair)
    assert [driver.send(b"one"), driver.send(b""), thread.send(b"three")] == [1, 2, 1]
    assert [thread.receive(), thread.receive(), driver.receive()] == [b"one", b"", b"three"]


def test_another_token_is_refused_and_never_crosses_the_network(pair):
    driver, thread = channels(pair, "the secret of this run", "another one")
    thread.send(b"hello")
    with pytest.raises(MessageError, match="not signed"):
        driver.receive()


def test_the_token_is_not_in_what_is_sent():
    one, other = socket.socketpair()
    with one, other:
        other.sendall(frames._PREAMBLE.pack(frames._MAGIC, frames.PROTOCOL_VERSION, b"n" * 32))
        Channel(one, "secret-token", is_driver=False).send(b"hello")
        assert b"secret-token" not in other.recv(1 << 16)


def test_a_frame_that_was_recorded_is_refused_a_second_time(pair):
    driver, thread = channels(pair)
    recorded = thread._signature(b"t", 1, b"hello")
    frame = frames._LENGTH.pack(5) + recorded + b"hello"
    pair[1].sendall(frame + frame)
    assert driver.receive() == b"hello"
    with pytest.raises(MessageError, match="Message 2 is not signed"):
        driver.receive()


def test_a_frame_of_another_connection_is_refused(pair):
    _, thread = channels(pair)
    frame = frames._LENGTH.pack(5) + thread._signature(b"t", 1, b"hello") + b"hello"
    with socket.socketpair()[0] as unused:
        assert unused
    one, other = socket.socketpair()
    with one, other:
        driver, _ = channels((one, other))
        other.sendall(frame)
        with pytest.raises(MessageError, match="not signed"):
            driver.receive()


def test_a_frame_that_goes_back_to_its_sender_is_refused(pair):
    driver, thread = channels(pair)
    pair[0].sendall(frames._LENGTH.pack(5) + thread._signature(b"t", 1, b"hello") + b"hello")
    assert driver
    with pytest.raises(MessageError, match="not signed"):
        thread.receive()


def test_a_length_beyond_the_limit_is_not_waited_for(pair):
    driver, thread = channels(pair)
    pair[1].sendall(frames._LENGTH.pack(frames.FIRST_LIMIT + 1))
    with pytest.raises(MessageError, match="is announced"):
        driver.receive()
    assert thread.sent == 0


def test_a_message_beyond_the_limit_is_not_sent(pair, monkeypatch):
    driver, _ = channels(pair)
    monkeypatch.setattr(frames, "LIMIT", 10)
    with pytest.raises(MessageError, match="11 bytes, more than 10"):
        driver.send(b"x" * 11)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nHost: a.b.c.d.e.f.g\r\n\r\n", b"\x00" * 38])
def test_what_speaks_another_protocol_is_named(pair, said):
    pair[1].sendall(said)
    with pytest.raises(MessageError, match="does not speak"):
        Channel(pair[0], "t", is_driver=True)


def test_another_version_is_named(pair):
    pair[1].sendall(frames._PREAMBLE.pack(frames._MAGIC, 99, b"n" * 32))
    with pytest.raises(MessageError, match="version 99"):
        Channel(pair[0], "t", is_driver=True)


def test_an_end_in_the_middle_of_a_frame_is_an_end(pair):
    driver, _ = channels(pair)
    pair[1].sendall(frames._LENGTH.pack(100) + b"x" * 50)
    pair[1].close()
    with pytest.raises(EOFError):
        driver.receive()
