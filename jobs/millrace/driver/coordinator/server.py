"""The coordinator's port, to which stream threads connect."""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from millrace.errors import ConfigurationError
from millrace.spark.stream_threads.conversation import Conversation, Ended
from millrace.spark.stream_threads.frames import Channel, MessageError
from millrace.spark.stream_threads.messages import (
    FromDriver,
    FromThread,
    Hello,
    Welcome,
    from_driver_to_bytes,
    from_thread,
)

_GREETING_S = 5.0
"""How long what connects may take to show that it has the token, seconds."""

_MOST_STRANGERS = 64
"""Connections at a time that have not shown the token yet; more are closed at once."""

_ACCEPT_RETRY_S = 0.1

_PORT_S = 5.0
"""How long a driver that was replaced may keep a port, seconds: it ends within two."""

_log = structlog.get_logger(__name__)


class ThreadEvents(Protocol):
    """A listener to the connections of stream threads: called by the server's threads, in order for each connection."""

    def joined(self, connection: int, hello: Hello) -> None:
        """Handles that a thread has authenticated itself with the token, and was welcomed."""

    def received(self, connection: int, message: FromThread) -> None:
        """Handles a message of the thread."""

    def left(self, connection: int, reason: str) -> None:
        """Handles the end of a thread's connection; no message follows."""


class CoordinatorServer:
    """A server to which stream threads connect.

    Args:
        bind: the address that is listened on.
        port: its port; 0 takes a free one.
        host: the name or address at which workers reach the driver.
        token: what they must have.
        application: the application id.
        run: identifies the driver's run.
        lease_s: how long a thread may process after the last of its messages that was seen here, seconds.
        events: takes what comes.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """

    def __init__(
        self,
        bind: str,
        host: str,
        token: str,
        *,
        port: int = 0,
        application: str,
        run: str,
        lease_s: float,
        events: ThreadEvents,
    ) -> None:
        self._host = host
        self._token = token
        self._application = application
        self._run = run
        self._lease_s = lease_s
        self._events = events
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()
        self._strangers: set[socket.socket] = set()
        self._conversations: dict[int, Conversation[FromDriver, FromThread]] = {}
        self._ending = threading.Event()
        self._listener = _listener(bind.strip("[]"), port, application)
        self._thread = threading.Thread(target=self._accept, name="coordinator-accepts", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``host:port`` to which workers connect."""
        return f"{self._host}:{self._listener.getsockname()[1]}"

    def send(self, connection: int, message: FromDriver) -> None:
        """Sends a message to a thread; returns at once. Drops it if the connection has ended."""
        with self._guard:
            conversation = self._conversations.get(connection)
        if conversation is not None:
            conversation.send(message)

    def close_connection(self, connection: int, reason: str) -> None:
        """Closes a thread's connection after the messages already sent; ``left`` is called then."""
        with self._guard:
            conversation = self._conversations.get(connection)
        if conversation is not None:
            _log.info("connection of a stream thread is closed", connection=connection, reason=reason)
            conversation.finish()

    def break_connection(self, connection: int, reason: str) -> None:
        """Closes a connection at once, even if its thread does not read; ``left`` is called then."""
        with self._guard:
            conversation = self._conversations.get(connection)
        if conversation is not None:
            conversation.break_off(reason)

    def close(self) -> None:
        """Stops listening and closes all connections. Idempotent."""
        with self._guard:
            self._ending.set()
            conversations = list(self._conversations.values())
            strangers = list(self._strangers)
        for each in [self._listener, *strangers]:
            with contextlib.suppress(OSError):
                # A closed socket alone does not wake a thread that waits on it.
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conversation in conversations:
            conversation.break_off("the coordinator ends")

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError as error:
                if self._ending.is_set():
                    return
                # One that was gone before it was taken, or too many open files: the next one may be luckier.
                _log.warning("a connection was not accepted", problem=str(error))
                self._ending.wait(_ACCEPT_RETRY_S)
                continue
            with self._guard:
                known = not self._ending.is_set() and len(self._strangers) < _MOST_STRANGERS
                if known:
                    self._strangers.add(connection)
            if not known:
                connection.close()
                continue
            threading.Thread(
                target=self._greet, args=(connection, _readable(peer)), name="coordinator-greets", daemon=True
            ).start()

    def _greet(self, connection: socket.socket, peer: str) -> None:
        try:
            self._admit(connection)
        except (OSError, EOFError, MessageError) as error:
            problem = error.message if isinstance(error, MessageError) else str(error)
            _log.warning("what connected is no stream thread of this driver", peer=peer, problem=problem)
            connection.close()
        except Exception:
            # A fault of ours: the thread is told by the end of its connection.
            _log.exception("a stream thread was not taken in", peer=peer)
            connection.close()
        finally:
            with self._guard:
                self._strangers.discard(connection)

    def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(_GREETING_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = Channel(connection, self._token, is_driver=True)
        hello = from_thread(channel.receive())
        if not isinstance(hello, Hello):
            raise MessageError(f"The first message is {hello.kind}, not hello.", remedy="report this")
        if (hello.application, hello.run) != (self._application, self._run):
            raise MessageError(
                f"Thread {hello.thread} is of run {hello.run} of {hello.application}, not of {self._run} of "
                f"{self._application}.",
                remedy="none needed: it leaves",
            )
        seen_at = time.monotonic()
        channel.send(from_driver_to_bytes(Welcome(lease_s=self._lease_s)))
        number = next(self._numbers)
        conversation: Conversation[FromDriver, FromThread] = Conversation(
            connection,
            channel,
            encode=from_driver_to_bytes,
            decode=from_thread,
            on_message=self._taking(number),
            on_end=lambda ended: self._end(number, ended),
            seen_at=seen_at,
            name=f"stream-thread-{number}",
        )
        with self._guard:
            if self._ending.is_set():
                raise OSError("the coordinator has ended")
            self._conversations[number] = conversation
        self._events.joined(number, hello)
        conversation.start()

    def _taking(self, number: int) -> Callable[[FromThread], object]:
        def take(message: FromThread) -> None:
            if isinstance(message, Hello):
                raise MessageError("A thread has said hello twice.", remedy="report this")
            self._events.received(number, message)

        return take

    def _end(self, number: int, ended: Ended) -> None:
        with self._guard:
            self._conversations.pop(number, None)
        self._events.left(number, ended.reason)


def _readable(peer: tuple[object, ...]) -> str:
    return f"{peer[0]}:{peer[1]}"


def _listener(address: str, port: int, application: str) -> socket.socket:
    """Returns a listening socket; waits while a driver that was just replaced still has the port."""

    def listen() -> socket.socket:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address, port), family=family, backlog=128)

    attempts = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, OSError) and error.errno == errno.EADDRINUSE),
        stop=stop_after_delay(_PORT_S),
        wait=wait_fixed(_ACCEPT_RETRY_S),
        reraise=True,
    )
    try:
        return attempts(listen)
    except OSError as error:
        raise ConfigurationError(
            f"The coordinator of {application} cannot listen on {address}, port {port or 'any'}: {error}.",
            remedy="correct spark.driver.bindAddress or coordinator.port",
        ) from error
