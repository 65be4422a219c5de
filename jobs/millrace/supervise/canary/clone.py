"""What a canary is called, what it is made of, and which application it stands beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import read_json
from millrace.install.spec import SpecFile

SUFFIX = "-canary"
_DEAD_LETTERS = "errors.dead.letter.queue.topic.name"


class Canary(BaseModel):
    """A canary, as ``run/<clone>/canary.json`` has it.

    Args:
        of: the application that it is a clone of.
        savepoint: of that application, with which both began to be the same.
        candidate: the new specification, as it was given; variables not filled in.
        outputs: the topic of the clone, for each output topic that both write.
        made: topics that were made for it; nothing else is deleted with it.
    """

    model_config = ConfigDict(frozen=True)

    of: str
    savepoint: str
    candidate: dict[str, Any]
    outputs: dict[str, str]
    made: tuple[str, ...]


def clone_of(application: str) -> str:
    """Name of the canary of an application."""
    return f"{application}{SUFFIX}"


def canary_path(application: Application) -> Path:
    """The file that says what the canary of an application is."""
    return application.home.application(clone_of(application.name)).path / "canary.json"


def canary_of(application: Application) -> Canary:
    """The canary of an application.

    Raises:
        OperationError: it has none.
    """
    values = read_json(canary_path(application))
    if values is None:
        raise OperationError(
            f"{application} has no canary.", remedy=f"start one: `millrace canary start {application} --spec FILE`"
        )
    return Canary.model_validate(values)


def clone_document(candidate: SpecFile, application: str) -> dict[str, Any]:
    """The specification of the clone: the candidate's, with other names for all that it writes."""
    clone = clone_of(application)
    prefix = f"{clone}-"
    config = {key: value for key, value in candidate.raw.get("config", {}).items() if key != "application.id"}
    if _DEAD_LETTERS in config:
        config[_DEAD_LETTERS] = f"{prefix}{config[_DEAD_LETTERS]}"
    return {
        **candidate.raw,
        "name": clone,
        "description": f"The canary of {application}; `millrace canary drop {application}` deletes it.",
        "config": {**config, "output.topic.prefix": prefix},
        "topics": [],
        "state": "running",
        "production": False,
        "rollback_on_failure": False,
    }
