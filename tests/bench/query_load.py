"""A client of the query server that costs little: gets at a fixed rate over connections that stay open.

Each get is timed from the moment it was due, whatever the ones before it took: a server that stalls is not spared what
would have come meanwhile. A connection that waits for an answer is not used for another request.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import psutil
import uvloop

_CONNECTIONS = 16
_ABSENT = 1.1
"""Keys are drawn from a tenth more than there are."""


@dataclass
class Figures:
    """What was measured.

    Args:
        latencies_ms: of every get, from when it was due.
        codes: HTTP statuses.
        seconds: how long it took.
        server_cpu_s: processor time of the server and its followers meanwhile.
        client_cpu_s: processor time of this client.
    """

    latencies_ms: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    server_cpu_s: float = 0.0
    client_cpu_s: float = 0.0

    def text(self) -> str:
        """Rate, quantiles and costs in one line."""
        gets = len(self.latencies_ms)
        quantiles = np.quantile(self.latencies_ms, [0.5, 0.9, 0.99, 0.999, 1])
        named = zip(("p50", "p90", "p99", "p99.9", "max"), quantiles, strict=True)
        latencies = ", ".join(f"{name} {value:.2f}" for name, value in named)
        return (
            f"{gets / self.seconds:.0f} gets/s: {latencies} ms; answers {dict(self.codes)}; "
            f"processor time of a get {self.server_cpu_s / gets * 1e6:.0f} us in the server, "
            f"{self.client_cpu_s / gets * 1e6:.0f} us in the client"
        )


class _Connection(asyncio.Protocol):
    """One connection, which has one request on its way at most."""

    def __init__(self, idle: deque[_Connection], figures: Figures) -> None:
        self._idle = idle
        self._figures = figures
        self._received = b""
        self._due = 0.0
        self.on_answer: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport to isinstance.
        self.transport = cast(asyncio.Transport, transport)
        self._idle.append(self)

    def ask(self, request: bytes, due: float) -> None:
        self._due = due
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        at = head.lower().index(b"content-length: ") + len(b"content-length: ")
        if len(body) < int(head[at : at + 10].split(b"\r")[0]):
            return
        self._figures.latencies_ms.append((time.perf_counter() - self._due) * 1_000)
        self._figures.codes[int(head[9:12])] += 1
        self._received = b""
        self._idle.append(self)
        self.on_answer()


class Load:
    """Gets of random keys ``k0``, ``k1``, ... of the store ``sums``; one in ten does not exist.

    Args:
        address: of the query server.
        token: its bearer token.
        pid: its process, to tell its processor time.
        keys: how many keys there are.
    """

    def __init__(self, address: str, token: str, pid: int, keys: int) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = parts.hostname, parts.port
        self._tail = f" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        self._server = psutil.Process(pid)
        self._keys = keys
        self._random = random.Random(7)
        self._idle: deque[_Connection] = deque()
        self._unsent: deque[float] = deque()

    def run(self, *, rate: float, seconds: float) -> Figures:
        """Asks for so long at so many gets a second, and waits for all answers."""
        figures = Figures()
        processes = [self._server, *self._server.children(recursive=True)]
        server, client, begin = _cpu_s(processes), time.process_time(), time.perf_counter()
        uvloop.run(self._run(figures, int(rate * seconds), rate))
        figures.seconds = time.perf_counter() - begin
        figures.server_cpu_s = _cpu_s(processes) - server
        figures.client_cpu_s = time.process_time() - client
        return figures

    async def _run(self, figures: Figures, count: int, rate: float) -> None:
        loop = asyncio.get_running_loop()
        self._idle.clear()
        opened = [
            (await loop.create_connection(lambda: _Connection(self._idle, figures), *self._address))[1]
            for _ in range(_CONNECTIONS)
        ]
        for connection in opened:
            connection.on_answer = self._send
        begin = time.perf_counter()
        for number in range(count):
            due = begin + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            self._unsent.append(due)
            self._send()
        while len(figures.latencies_ms) < count:
            await asyncio.sleep(0.01)
        for connection in opened:
            connection.transport.close()

    def _send(self) -> None:
        while self._unsent and self._idle:
            key = self._random.randrange(int(self._keys * _ABSENT))
            self._idle.popleft().ask(b"GET /stores/sums/get?key=k%d%b" % (key, self._tail), self._unsent.popleft())


def prefer(nice: int) -> None:
    """Gives this process the priority of the server: it stands for a client on another machine."""
    os.setpriority(os.PRIO_PROCESS, 0, nice)


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
