"""Messages as bytes on a socket: a length, a signature, the message.

* Each side begins with a preamble: magic, version of the protocol, a random number (nonce).
* The key of a connection is made of the token, which never crosses the network, and both nonces. Every frame is signed
  by it, with its direction and number: a frame of another connection, of another driver, one that was sent twice or is
  out of order has a wrong signature.
* Nothing is decoded before its signature was compared, in constant time, and no length is believed beyond a limit.

The content is not encrypted: it has names, offsets, counts and error messages, no records and no secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct

from millrace.errors import MillraceError

PROTOCOL_VERSION = 1
"""Spark ships the same code to both sides, so another version means another installation of a worker."""

FIRST_LIMIT = 1 << 20
"""Longest first message of a side that has not shown yet that it has the token, bytes."""

LIMIT = 64 << 20
"""Longest message, bytes."""

_MAGIC = b"MRST"
_PREAMBLE = struct.Struct(">4sH32s")
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">cQ")
_SIGNATURE_BYTES = 32


class MessageError(MillraceError):
    """An error in the bytes of a connection between a stream thread and the driver."""


class Channel:
    """One side of a connection. One thread may send while another one receives.

    Args:
        connection: a connected socket; its timeout is the longest silence, and the longest wait for a reader.
        token: what both sides have.
        is_driver: which side this is.

    Raises:
        MessageError: the other side is none of ours, or of another version.
        OSError: the connection is broken.
        EOFError: the other side closed it.
    """

    def __init__(self, connection: socket.socket, token: str, *, is_driver: bool) -> None:
        self._connection = connection
        nonce = secrets.token_bytes(32)
        connection.sendall(_PREAMBLE.pack(_MAGIC, PROTOCOL_VERSION, nonce))
        magic, version, other = _PREAMBLE.unpack(self._exactly(_PREAMBLE.size))
        if magic != _MAGIC:
            raise MessageError("What connected does not speak the protocol of stream threads.", remedy=_STRANGER_REMEDY)
        if version != PROTOCOL_VERSION:
            raise MessageError(
                f"The other side has version {version} of the protocol of stream threads, this one {PROTOCOL_VERSION}.",
                remedy="give the driver and its workers the same installation",
            )
        nonces = nonce + other if is_driver else other + nonce
        self._key = hmac.digest(token.encode(), b"millrace stream threads" + nonces, hashlib.sha256)
        self._sends, self._receives = (b"d", b"t") if is_driver else (b"t", b"d")
        self.sent = 0
        """Number of messages sent."""
        self.received = 0
        """Number of messages received."""

    def send(self, message: bytes) -> int:
        """Sends a message; returns its number, from 1.

        Raises:
            MessageError: it is too long.
            OSError: the connection is broken, or the other side does not read.
        """
        if len(message) > LIMIT:
            raise MessageError(f"A message has {len(message)} bytes, more than {LIMIT}.", remedy="report this")
        number = self.sent + 1
        self._connection.sendall(_LENGTH.pack(len(message)) + self._signature(self._sends, number, message) + message)
        self.sent = number
        return number

    def receive(self) -> bytes:
        """Returns the next message, which it waits for.

        Raises:
            MessageError: it is too long, or not signed as it should be.
            OSError: the connection is broken, or the other side was silent for too long.
            EOFError: the other side closed the connection.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        limit = LIMIT if self.received else FIRST_LIMIT
        if length > limit:
            raise MessageError(f"A message of {length} bytes is announced, more than {limit}.", remedy=_STRANGER_REMEDY)
        signature = self._exactly(_SIGNATURE_BYTES)
        message = self._exactly(length)
        number = self.received + 1
        if not hmac.compare_digest(signature, self._signature(self._receives, number, message)):
            raise MessageError(
                f"Message {number} is not signed with the token of this driver's run.", remedy=_STRANGER_REMEDY
            )
        self.received = number
        return message

    def _signature(self, direction: bytes, number: int, message: bytes) -> bytes:
        return hmac.digest(self._key, _NUMBER.pack(direction, number) + message, hashlib.sha256)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._connection.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the other side closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


_STRANGER_REMEDY = (
    "none needed where a driver was just replaced; otherwise see what else connects to the port of the driver's "
    "coordinator"
)
