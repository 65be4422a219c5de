"""One look at a job that does not block the event loop."""

from __future__ import annotations

import asyncio
import time

import httpx

from millrace.install.application import Application
from millrace.launch import Observation
from millrace.launch.control_client import ask_async
from millrace.launch.judge import Evidence, judge
from millrace.launch.observe import collect_evidence
from millrace.tls import tls_context

LEAST_DEFERRAL_S = 5.0
"""No trigger fires before that. The scheduler learns of the end of a task's last stretch by a message of the executor;
where the task runs again before the message comes, it takes the task for a failed one: it starts a retry, or fails it.
"""


async def make_client() -> httpx.AsyncClient:
    """A client for :func:`probe_and_judge`; made apart because the first one of a process loads certificates."""
    return await asyncio.to_thread(lambda: httpx.AsyncClient(trust_env=False, verify=tls_context()))


async def probe_and_judge(application: Application, client: httpx.AsyncClient) -> tuple[Evidence, Observation]:
    """What can be seen of an application's job now, and what to think of it.

    Args:
        application: which.
        client: see :func:`make_client`.
    """
    evidence = await asyncio.to_thread(collect_evidence, application)
    answer = await ask_async(client, evidence.probe_result) if evidence.probe_result is not None else None
    return evidence, judge(evidence, answer, now=time.time())
