from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import StateError
from millrace.spark.worker_socket import connected, listen, receive, send, serve, socket_path


@pytest.fixture(autouse=True)
def own_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Not the one of the test, whose path may be too long for a socket.
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield


def test_a_path_that_is_too_long_for_a_socket_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    with pytest.raises(StateError, match="is too long for a socket, which may have 107 bytes") as refused:
        listen()
    assert refused.value.remedy == "set TMPDIR to a shorter path"


def test_a_message_is_answered_over_a_socket_that_only_its_user_can_open() -> None:
    def answer(connection: socket.socket, message: object) -> None:
        send(connection, ["heard", message])

    serve(listen(), answer, name="listener")
    path = socket_path(os.getpid())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with connected(path) as connection:
        send(connection, {"task": "0_0"})
        assert receive(connection) == ["heard", {"task": "0_0"}]


def test_a_directory_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    socket_path(1).parent.mkdir(mode=0o700)
    with pytest.raises(StateError, match=r"millrace-workers-\d+ of the sockets of workers is not theirs alone"):
        socket_path(1)
    with pytest.raises(StateError, match="is not theirs alone"):
        listen()


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o777])
def test_a_directory_that_others_can_open_is_refused(mode: int) -> None:
    directory = socket_path(1).parent
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(StateError, match="is not theirs alone"):
        listen()


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    socket_path(1).parent.symlink_to(elsewhere)
    with pytest.raises(StateError, match="is not theirs alone"):
        listen()
    assert list(elsewhere.iterdir()) == []
