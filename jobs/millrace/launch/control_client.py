"""Asking a driver's control plane, and asking it to stop; nothing here waits longer than it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx
import orjson

from millrace.driver.control_file import read_token
from millrace.driver.status import ApplicationStatus
from millrace.errors import MillraceError, OperationError, SerializationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import ControlPlane, DriverInstance, Presence, Probe
from millrace.tls import tls_context

ANSWER_LIMIT_S = 3.0


class AnswerKind(StrEnum):
    """The kind of a driver's answer to a probe."""

    STATUS = "status"
    UNREADABLE = "unreadable"
    NONE = "none"
    NOT_UP = "not_up"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a driver's control plane.

    Args:
        kind: ``STATUS`` with the status; ``UNREADABLE`` where the control plane lives and its status is no status;
            ``NONE`` where no answer came in time; ``NOT_UP`` where the driver has not published an address yet.
        status: the application's status.
        detail: what was wrong, for people.
    """

    kind: AnswerKind
    status: ApplicationStatus | None = None
    detail: str = ""


def ask(probe_result: Probe, *, timeout_s: float = ANSWER_LIMIT_S) -> Answer | None:
    """Asks ``/health/live`` and ``/status``; never raises, as a driver that cannot be asked is an answer too.

    Args:
        probe_result: of the driver; one that is not there is not asked.
        timeout_s: limit of each request, seconds.
    """
    if probe_result.presence is not Presence.ALIVE:
        return None
    control = probe_result.control
    if control is None:
        return _not_up(probe_result)
    try:
        with httpx.Client(base_url=control.address, timeout=timeout_s, trust_env=False, verify=tls_context()) as client:
            return _answer(client.get("/health/live"), client.get("/status"))
    except httpx.HTTPError as error:
        return _no_answer(control, error)


async def ask_async(
    client: httpx.AsyncClient, probe_result: Probe, *, timeout_s: float = ANSWER_LIMIT_S
) -> Answer | None:
    """Works like :func:`ask`, without blocking the event loop.

    Args:
        client: a client that lives as long as the caller.
        probe_result: see :func:`ask`.
        timeout_s: see :func:`ask`.
    """
    if probe_result.presence is not Presence.ALIVE:
        return None
    control = probe_result.control
    if control is None:
        return _not_up(probe_result)
    try:
        live = await client.get(f"{control.address}/health/live", timeout=timeout_s)
        return _answer(live, await client.get(f"{control.address}/status", timeout=timeout_s))
    except httpx.HTTPError as error:
        return _no_answer(control, error)


def _not_up(probe_result: Probe) -> Answer:
    return Answer(kind=AnswerKind.NOT_UP, detail=probe_result.text or "the driver has not published its address yet")


def _no_answer(control: ControlPlane, error: httpx.HTTPError) -> Answer:
    return Answer(kind=AnswerKind.NONE, detail=f"{control.address} did not answer: {type(error).__name__} {error}")


def _answer(live: httpx.Response, status: httpx.Response) -> Answer:
    try:
        return Answer(kind=AnswerKind.STATUS, status=ApplicationStatus.from_json(status.content))
    except SerializationError as error:
        if live.status_code == httpx.codes.OK:
            return Answer(
                kind=AnswerKind.UNREADABLE, detail=f"/status answered {status.status_code}: {error.message[:200]}"
            )
        return Answer(
            kind=AnswerKind.NONE,
            detail=f"/health/live answered {live.status_code} and /status cannot be read: {live.text[:200]}",
        )


def request_operation(
    directory: ApplicationDirectory,
    driver: DriverInstance,
    name: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float,
) -> dict[str, Any]:
    """Makes the driver execute an operation.

    Args:
        directory: the application's directory.
        driver: the driver.
        name: name of the operation.
        arguments: JSON-compatible.
        timeout_s: longest wait for the answer, seconds; the operation goes on in the driver when it is over.

    Returns:
        Its answer.

    Raises:
        OperationError: the driver cannot be asked, refuses, or did not answer in time.
    """
    control = driver.probe(directory).control
    if control is None:
        raise OperationError(
            f"The driver of {directory.application} has not published its address.", remedy="wait until it is ready"
        )
    token = read_token(control.token_file)
    try:
        answer = httpx.post(
            f"{control.address}/operations/{name}",
            content=orjson.dumps(dict(arguments)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            trust_env=False,
            verify=tls_context(),
        )
    except httpx.HTTPError as error:
        raise OperationError(
            f"The driver of {directory.application} did not answer {name}: {type(error).__name__} {error}.",
            remedy=f"look whether it is well with `millrace status`, and read {directory.log}",
        ) from error
    try:
        content = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        content = {"error": answer.text[:500]}
    if answer.status_code != httpx.codes.OK:
        raise OperationError(
            f"The driver of {directory.application} refused {name}: {content.get('error', answer.status_code)}",
            remedy=str(content.get("remedy", f"read {directory.log}")),
        )
    return dict(content)


def request_stop(control: ControlPlane | None, *, timeout_s: float = ANSWER_LIMIT_S) -> str:
    """Asks a driver to stop gracefully.

    Returns:
        Empty if it agreed; otherwise why it could not be asked, for the journal: the caller then uses signals.
    """
    if control is None:
        return "the driver has not published its address"
    try:
        token = read_token(control.token_file)
        answer = httpx.post(
            f"{control.address}/stop",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            trust_env=False,
            verify=tls_context(),
        )
    except (httpx.HTTPError, MillraceError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if answer.is_success else f"/stop answered {answer.status_code}: {answer.text[:200]}"
