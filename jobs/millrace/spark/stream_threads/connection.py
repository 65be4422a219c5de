"""A stream thread's connection to the driver's coordinator."""

from __future__ import annotations

import queue
import socket
import time

from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_fixed

from millrace.errors import OperationError
from millrace.spark.stream_threads.conversation import Conversation, Ended
from millrace.spark.stream_threads.frames import Channel, MessageError
from millrace.spark.stream_threads.messages import (
    FromDriver,
    FromThread,
    Goodbye,
    Hello,
    Welcome,
    from_driver,
    from_thread_to_bytes,
)

CONNECT_LIMIT_S = 20.0
"""How long a driver may not answer before the thread says so in its log and tries again, seconds."""

_ATTEMPT_S = 5.0
_RETRY_S = 0.2
_LEAVE_S = 5.0


class CoordinatorUnreachableError(OperationError):
    """A worker cannot connect to the driver's coordinator."""


class CoordinatorRefusedError(OperationError):
    """The driver's coordinator does not know a worker that has connected."""


class CoordinatorConnection:
    """The connection of a stream thread's loop to its driver. Called by the loop only.

    Args:
        address: ``host:port`` of the coordinator.
        token: of the driver's run.
        hello: who this thread is and what it has.
        connect_limit_s: how long to try, seconds.

    Raises:
        CoordinatorUnreachableError: it did not answer in time.
        CoordinatorRefusedError: it does not know the thread.
    """

    def __init__(self, address: str, token: str, hello: Hello, *, connect_limit_s: float = CONNECT_LIMIT_S) -> None:
        self._inbox: queue.SimpleQueue[FromDriver | Ended] = queue.SimpleQueue()
        self._ended: Ended | None = None
        connection, channel, seen_at = _connected(address, token, hello, connect_limit_s)
        try:
            # What else comes before it would be lost: the driver says nothing before.
            self._lease_s = _welcomed(channel)
        except (OSError, EOFError, MessageError) as error:
            connection.close()
            raise CoordinatorRefusedError(
                f"Worker {hello.host}/{hello.pid} is not accepted by the coordinator of {hello.application} at "
                f"{address}: {error}.",
                remedy="none needed where a newer driver has taken over; otherwise see the driver's log, which has the "
                "reason",
            ) from error
        self._conversation: Conversation[FromThread, FromDriver] = Conversation(
            connection,
            channel,
            encode=from_thread_to_bytes,
            decode=from_driver,
            on_message=self._inbox.put,
            on_end=self._inbox.put,
            seen_at=seen_at,
            name=f"coordinator-{hello.slot}",
        )
        self._conversation.start()

    @property
    def lease_left_s(self) -> float:
        """Seconds for which no other thread can get this thread's tasks; nothing is committed after them.

        A thread that was stopped, or cut off, finds it used up; its tasks may belong to others by then.
        """
        if self._ended is not None:
            return 0.0
        return max(0.0, self._conversation.seen_at + self._lease_s - time.monotonic())

    def send(self, message: FromThread) -> None:
        """Sends a message; returns at once. Drops it if the connection is broken."""
        self._conversation.send(message)

    def take(self, timeout_s: float = 0.0) -> FromDriver | Ended | None:
        """Returns the driver's next message, or that the connection has ended; no message follows that.

        Args:
            timeout_s: how long to wait for it, seconds.

        Returns:
            the message; ``None`` where nothing came.
        """
        if self._ended is not None:
            return self._ended
        try:
            taken = self._inbox.get(timeout=timeout_s) if timeout_s > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return None
        if isinstance(taken, Ended):
            self._ended = taken
        return taken

    def leave(self, reason: str) -> None:
        """Sends the goodbye and ends the connection; every task must be committed. Idempotent.

        Args:
            reason: why the thread leaves.
        """
        self._conversation.send(Goodbye(reason))
        self._conversation.finish()
        if not self._conversation.join(_LEAVE_S):
            self.abandon(reason)

    def abandon(self, reason: str) -> None:
        """Ends the connection without a goodbye: the driver fences the tasks before other threads get them."""
        self._conversation.break_off(reason)
        self._conversation.join(_LEAVE_S)


def _connected(address: str, token: str, hello: Hello, limit_s: float) -> tuple[socket.socket, Channel, float]:
    # A driver that has just begun may not listen yet, and nothing tells when it does.
    attempts = Retrying(
        retry=retry_if_exception_type((OSError, EOFError, MessageError)),
        stop=stop_before_delay(limit_s),
        wait=wait_fixed(_RETRY_S),
        reraise=True,
    )
    try:
        return attempts(_greeted, address, token, hello)
    except (OSError, EOFError, MessageError) as error:
        raise CoordinatorUnreachableError(
            f"Worker {hello.host}/{hello.pid} cannot reach the coordinator of {hello.application} at "
            f"{address}: {error} (tried for {limit_s:g} s).",
            remedy="let the workers' hosts connect to the driver at that name and port: see spark.driver.host "
            "and the rules of the network between them",
        ) from error


def _greeted(address: str, token: str, hello: Hello) -> tuple[socket.socket, Channel, float]:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_ATTEMPT_S)
    try:
        channel = Channel(connection, token, is_driver=False)
        greeted_at = time.monotonic()
        channel.send(from_thread_to_bytes(hello))
    except BaseException:
        connection.close()
        raise
    return connection, channel, greeted_at


def _welcomed(channel: Channel) -> float:
    message = from_driver(channel.receive())
    if not isinstance(message, Welcome):
        raise MessageError(f"The driver's first message is {message.kind}, not welcome.", remedy="report this")
    return message.lease_s
