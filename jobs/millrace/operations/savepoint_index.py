"""The index of an application's savepoints, a small local file for readers that must not wait, such as a form.

The repository may be far away. The file is written again by everything here that looks at a repository or changes it;
what others put there is known after the next look. DAG files import this module and must be parsed fast, so it knows
nothing of manifests and repositories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from millrace.errors import OperationError
from millrace.install.files import now_text, read_json, write_json
from millrace.install.home import ApplicationDirectory


@dataclass(frozen=True, kw_only=True)
class KnownSavepoint:
    """A savepoint as the last probe at the repository found it.

    Args:
        name: its name.
        state: how far it is, see :class:`millrace.operations.savepoints.SavepointState`.
        created_at: seconds since the epoch.
        bytes: size of its files.
        reason: why it was taken.
    """

    name: str
    state: str
    created_at: float
    bytes: int = 0
    reason: str = ""


def write_index(directory: ApplicationDirectory, known: Iterable[KnownSavepoint]) -> None:
    """Replaces an application's file.

    Args:
        directory: the application's directory.
        known: all savepoints that the repository has, the oldest first.
    """
    write_json(directory.savepoints, {"written_at": now_text(), "savepoints": [asdict(each) for each in known]})


def read_index(directory: ApplicationDirectory) -> list[KnownSavepoint]:
    """Returns the savepoints at the last probe, the oldest first; none before the first probe. It takes no time.

    Raises:
        OperationError: the file cannot be understood.
    """
    document = read_json(directory.savepoints)
    if document is None:
        return []
    try:
        return [_known(each) for each in document["savepoints"]]
    except (KeyError, TypeError, ValueError) as error:
        raise OperationError(
            f"{directory.savepoints} does not say which savepoints there are: {error}.",
            remedy=f"remove it; `millrace savepoint list {directory.application}` writes it again",
        ) from error


def _known(values: dict[str, Any]) -> KnownSavepoint:
    return KnownSavepoint(
        name=str(values["name"]),
        state=str(values["state"]),
        created_at=float(values["created_at"]),
        bytes=int(values.get("bytes", 0)),
        reason=str(values.get("reason", "")),
    )
