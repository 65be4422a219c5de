"""Both directions of a connection between a stream thread and the driver, each with a thread of its own."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from millrace.spark.stream_threads.frames import Channel, MessageError
from millrace.spark.stream_threads.messages import Alive

PULSE_S = 1.0
"""How often each side says that it lives, seconds."""

SILENCE_S = 15.0
"""How long the other side may be silent before the connection counts as broken, seconds. An end of its process shows at
once; this is for a host that is cut off, or a process that is stopped."""

Sent = TypeVar("Sent")
Received = TypeVar("Received")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Ended:
    """The end of a connection; no message follows. A process that is killed ends its connections too.

    Args:
        reason: why.
    """

    reason: str


class Conversation(Generic[Sent, Received]):
    """A connection that sends messages in order, and passes received ones on, until it ends.

    Args:
        connection: the socket, whose timeout it sets.
        channel: what was made of it.
        encode: message to bytes.
        decode: bytes to message; raises ``MessageError``.
        on_message: takes each message but ``Alive``, from the receiving thread.
        on_end: called once, after the last message, from the receiving thread.
        seen_at: when the last message before was sent that the other side has seen, by the monotonic clock, seconds.
        name: of the threads.
    """

    def __init__(
        self,
        connection: socket.socket,
        channel: Channel,
        *,
        encode: Callable[[Sent | Alive], bytes],
        decode: Callable[[bytes], Received | Alive],
        on_message: Callable[[Received], object],
        on_end: Callable[[Ended], object],
        seen_at: float,
        name: str,
    ) -> None:
        self._connection = connection
        connection.settimeout(SILENCE_S)
        self._channel = channel
        self._encode = encode
        self._decode = decode
        self._on_message = on_message
        self._on_end = on_end
        self._name = name
        self._outbox: queue.SimpleQueue[Sent | None] = queue.SimpleQueue()
        self._sent_at: deque[tuple[int, float]] = deque()
        self._seen_at = seen_at
        self._why = ""
        self._threads = [
            threading.Thread(target=self._send_all, name=f"{name}-sends", daemon=True),
            threading.Thread(target=self._receive_all, name=f"{name}-receives", daemon=True),
        ]

    @property
    def seen_at(self) -> float:
        """Time at which the last message was sent that the other side has seen, by the monotonic clock, seconds."""
        return self._seen_at

    def start(self) -> None:
        """Starts the threads that send and receive."""
        for thread in self._threads:
            thread.start()

    def send(self, message: Sent) -> None:
        """Sends a message after those before it; returns at once. Drops it if the connection has ended."""
        self._outbox.put(message)

    def finish(self) -> None:
        """Ends the connection after the messages that were given to :meth:`send`; returns at once."""
        self._outbox.put(None)

    def break_off(self, reason: str) -> None:
        """Ends the connection now, and drops unsent messages."""
        self._why = self._why or reason
        with contextlib.suppress(OSError):
            # A closed socket alone does not wake a thread that waits on it.
            self._connection.shutdown(socket.SHUT_RDWR)

    def join(self, timeout_s: float) -> bool:
        """Waits until both threads have ended, at most ``timeout_s`` seconds; returns whether they have."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _send_all(self) -> None:
        pulse_at = 0.0
        try:
            while True:
                now = time.monotonic()
                if now >= pulse_at:
                    self._send_one(Alive(self._channel.received))
                    pulse_at = now + PULSE_S
                try:
                    message = self._outbox.get(timeout=max(0.0, pulse_at - time.monotonic()))
                except queue.Empty:
                    continue
                if message is None:
                    self._connection.shutdown(socket.SHUT_WR)
                    return
                self._send_one(message)
        except (OSError, MessageError) as error:
            self.break_off(f"sending failed: {error}")

    def _send_one(self, message: Sent | Alive) -> None:
        data = self._encode(message)
        sent_at = time.monotonic()
        # Before it is on its way: the answer may be there before this thread goes on.
        self._sent_at.append((self._channel.sent + 1, sent_at))
        self._channel.send(data)

    def _receive_all(self) -> None:
        try:
            while True:
                message = self._decode(self._channel.receive())
                if isinstance(message, Alive):
                    self._has_seen(message.seen)
                else:
                    self._on_message(message)
        except EOFError as error:
            ended = Ended(self._why or str(error))
        except (OSError, MessageError) as error:
            silent = isinstance(error, TimeoutError)
            reason = f"nothing was heard for {SILENCE_S:g} s" if silent else str(error)
            ended = Ended(self._why or reason)
        except Exception as error:
            # A fault of ours: the other side must not wait for a thread that is gone.
            _log.exception("connection ends with an error", connection=self._name)
            ended = Ended(f"{type(error).__name__}: {error}")
        self.break_off(ended.reason)
        self._outbox.put(None)
        self._connection.close()
        self._on_end(ended)

    def _has_seen(self, number: int) -> None:
        while self._sent_at and self._sent_at[0][0] <= number:
            self._seen_at = self._sent_at.popleft()[1]
