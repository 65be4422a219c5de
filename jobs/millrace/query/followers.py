"""Two followers that take turns: one answers while the other is brought to the last commit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from pathlib import Path

import structlog

from millrace.query.follower import LENGTH, Ask, CatchUp, Follow, encode
from millrace.query.local_tasks import TaskId
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import StoreAnswer, StoreQuery

_log = structlog.get_logger(__name__)
_PACKAGES = Path(__file__).resolve().parents[2]
_END_LIMIT_S = 5.0
# Not -m: what a main module defines is not what the messages are made of.
_FOLLOW = "from millrace.query.follower import main; main()"


class _Follower:
    """One process; messages are answered in their order."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._receiving: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None and self._receiving is not None

    async def start(self) -> None:
        path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _FOLLOW,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._process.stdin is not None
        self._process.stdin.write(encode(self._follow))
        self._receiving = asyncio.create_task(self._receive(self._process))

    async def ask(self, message: object) -> object:
        if not self.is_alive:
            raise _gone()
        assert self._process is not None
        assert self._process.stdin is not None
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._process.stdin.write(encode(message))
        return await answer

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _receive(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                head = await process.stdout.readexactly(LENGTH.size)
                content = pickle.loads(await process.stdout.readexactly(LENGTH.unpack(head)[0]))
                answer = self._waiting.popleft()
                if answer.done():
                    continue  # who asked has gone away
                if isinstance(content, Exception):
                    answer.set_exception(content)
                else:
                    answer.set_result(content)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._receiving = None
            waiting, self._waiting = self._waiting, deque()
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(_gone())


class Followers:
    """Answers queries from the databases on this host.

    Answers are behind the application's commits by ``freshness_ms`` and the time that catching up takes, at most: every
    ``freshness_ms`` the one that rests is brought to the last commit, and then answers in place of the other.

    Args:
        follow: what to follow.
        freshness_ms: time between two catch-ups, milliseconds.
    """

    def __init__(self, follow: Follow, *, freshness_ms: int) -> None:
        self._freshness_s = freshness_ms / 1000
        self._active, self._resting = _Follower(follow), _Follower(follow)
        self._turns: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start both; when it returns, the first one has everything that was committed."""
        await asyncio.gather(self._active.start(), self._resting.start())
        await self._active.ask(CatchUp())
        self._turns = asyncio.create_task(self._take_turns())

    async def stop(self) -> None:
        """End both. Idempotent."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turns
        await asyncio.gather(self._active.stop(), self._resting.stop())

    async def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """What the store of a task holds, or, where that will do, a standby's copy of it.

        Raises:
            QueryRefusedError: the task is not here, is being restored, or the follower died.
        """
        answer = await self._active.ask(Ask(task, query, standby))
        assert isinstance(answer, StoreAnswer)
        return answer

    async def _take_turns(self) -> None:
        while True:
            await asyncio.sleep(self._freshness_s)
            try:
                for follower in (self._resting, self._active):
                    if not follower.is_alive:
                        _log.warning("follower started anew")
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
