"""Two followers that take turns: one answers while the other is brought to the last commit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from pathlib import Path
from typing import cast

import structlog

from millrace.queries.follower import LENGTH, Ask, CatchUp, Follow, encode
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Found, Lookup, StoreAnswer, StoreQuery, TaskId, View

_log = structlog.get_logger(__name__)
_PACKAGES = Path(__file__).resolve().parents[2]
_END_LIMIT_S = 5.0
# Not -m: what a main module defines is not what the messages are made of.
_FOLLOW = "from millrace.queries.follower import main; main()"


class _Follower(asyncio.SubprocessProtocol):
    """A follower process; it answers messages in their order."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._transport: asyncio.SubprocessTransport | None = None
        self._pipe: asyncio.WriteTransport | None = None
        self._ended = asyncio.Event()
        self._received = bytearray()
        self._unsent: list[bytes] = []
        self._pending: deque[tuple[asyncio.Future[object], TaskId | None]] = deque()
        self._views: dict[TaskId, View] = {}

    @property
    def is_alive(self) -> bool:
        return self._transport is not None and not self._ended.is_set()

    async def start(self) -> None:
        path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
        self._ended.clear()
        self._received.clear()
        self._views.clear()
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            sys.executable,
            "-c",
            _FOLLOW,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        self._pipe.write(encode(self._follow))

    def ask(self, message: object) -> asyncio.Future[object]:
        """Sends a message and returns its future answer; that of a lookup always has its commit."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if not self.is_alive:
            answer.set_exception(_gone())
            return answer
        self._pending.append((answer, message.task if isinstance(message, Lookup) else None))
        if not self._unsent:
            # What is asked in one turn of the loop goes in one write.
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(encode(message))
        return answer

    async def stop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if self._pipe is not None:
            self._pipe.close()
        try:
            await asyncio.wait_for(self._ended.wait(), _END_LIMIT_S)
        except TimeoutError:
            transport.kill()
            await self._ended.wait()
        transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - as asyncio calls it
        """Handles received answers."""
        received = self._received
        received += data
        at = 0
        while len(received) - at >= LENGTH.size:
            end = at + LENGTH.size + LENGTH.unpack_from(received, at)[0]
            if len(received) < end:
                break
            self._take(pickle.loads(memoryview(received)[at + LENGTH.size : end]))
            at = end
        del received[:at]

    def process_exited(self) -> None:
        """Fails the pending requests, whose answers may be lost."""
        self._ended.set()
        self._unsent.clear()
        pending, self._pending = self._pending, deque()
        for answer, _ in pending:
            if not answer.done():
                answer.set_exception(_gone())

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self.is_alive:
            assert self._pipe is not None
            self._pipe.write(b"".join(unsent))

    def _take(self, content: object) -> None:
        if not self._pending:
            return  # it has ended, and the pending requests have failed
        answer, task = self._pending.popleft()
        if task is not None and isinstance(content, Found):
            if content.view is None:
                content = Found(content.entries, self._views[task])
            else:
                self._views[task] = content.view
        if answer.done():
            return  # who asked has gone away
        if isinstance(content, Exception):
            answer.set_exception(content)
        else:
            answer.set_result(content)


class Followers:
    """Queries to the databases on this host, answered by followers.

    Answers are behind the application's commits by ``freshness_ms`` and the time that catching up takes, at most: every
    ``freshness_ms`` the idle one is brought to the last commit, and then answers instead of the other.

    Args:
        follow: what to follow.
        freshness_ms: time between two catch-ups, milliseconds.
    """

    def __init__(self, follow: Follow, *, freshness_ms: int) -> None:
        self._freshness_s = freshness_ms / 1000
        self._active, self._resting = _Follower(follow), _Follower(follow)
        self._turns: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts both followers; returns once the first one has every commit."""
        await asyncio.gather(self._active.start(), self._resting.start())
        await self._active.ask(CatchUp())
        self._turns = asyncio.create_task(self._take_turns())

    async def stop(self) -> None:
        """Ends both followers. Idempotent."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turns
        await asyncio.gather(self._active.stop(), self._resting.stop())

    async def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """Returns the entries of a task's store, or, if ``standby`` allows it, of a standby's copy.

        Raises:
            QueryRefusedError: the task is not here, is being restored, or the follower died.
        """
        answer = await self._active.ask(Ask(task, query, standby))
        assert isinstance(answer, StoreAnswer)
        return answer

    async def look_up(self, lookup: Lookup) -> Found:
        """Returns the entries of some keys of a task, with the commit that they are from.

        Raises:
            QueryRefusedError: as of :meth:`answer`.
        """
        found = await self._active.ask(lookup)
        assert isinstance(found, Found)
        return found

    async def _take_turns(self) -> None:
        while True:
            await asyncio.sleep(self._freshness_s)
            try:
                for follower in (self._resting, self._active):
                    if not follower.is_alive:
                        _log.warning("follower started again")
                        await follower.stop()
                        await follower.start()
                await self._resting.ask(CatchUp())
                self._active, self._resting = self._resting, self._active
            except Exception as error:
                # Tried again at the next turn; meanwhile the active one answers from what it has.
                _log.warning("follower not brought up to date", problem=f"{type(error).__name__}: {error}")


def _gone() -> QueryRefusedError:
    return QueryRefusedError(
        Reason.RESTORING, "The process that follows the state has ended; a new one is started.", remedy="ask again"
    )
