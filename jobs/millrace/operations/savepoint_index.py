"""Which savepoints an application has, in a small local file: for whoever must know at once, such as a form.

The repository may be far away. The file is written again by everything here that looks at a repository or changes it;
what others put there is known after the next look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from millrace.errors import OperationError
from millrace.install.files import now_text, read_json, write_json
from millrace.install.home import ApplicationDirectory

if TYPE_CHECKING:
    # DAG files import this module, and must be parsed fast.
    from millrace.operations.savepoints.manifest import Manifest


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


def write_index(directory: ApplicationDirectory, manifests: Iterable[Manifest]) -> None:
    """Replace an application's file.

    Args:
        directory: the application's directory.
        manifests: all savepoints that the repository has, the oldest first.
    """
    known = [
        KnownSavepoint(
            name=each.name,
            state=str(each.state),
            created_at=each.created_at,
            bytes=each.size,
            reason=each.reason[:200],
        )
        for each in manifests
    ]
    write_json(directory.savepoints, {"written_at": now_text(), "savepoints": [asdict(each) for each in known]})


def read_index(directory: ApplicationDirectory) -> list[KnownSavepoint]:
    """The savepoints that were there at the last probe, the oldest first; none where nobody has looked. Takes no time.

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
