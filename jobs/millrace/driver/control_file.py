"""``control.json``: the address of a local driver, for tools on the same host."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from millrace.errors import ConfigurationError, OperationError
from millrace.files import write_atomically
from millrace.processes import ProcessIdentity


class ControlFile(BaseModel):
    """The content of ``control.json``.

    Args:
        pid: process id of the driver.
        start_time: when the process started, as in ``ProcessIdentity``.
        address: ``http://host:port`` of the control plane.
        token_file: file that holds the bearer token of changing requests.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    start_time: int
    address: str
    token_file: str

    @property
    def process(self) -> ProcessIdentity:
        """The driver's process."""
        return ProcessIdentity(self.pid, self.start_time)

    def write(self, path: Path) -> None:
        """Writes the file atomically: a reader sees the old content or the new, never a part of it."""
        write_atomically(path, self.model_dump_json(indent=2).encode() + b"\n", mode=0o644)

    def remove_own(self, path: Path) -> None:
        """Removes ``path`` unless a newer driver has written its own file there since."""
        with contextlib.suppress(OperationError):
            if ControlFile.read(path) == self:
                path.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> ControlFile:
        """Reads the file at ``path``.

        Raises:
            OperationError: there is none, or it is not a control file.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise OperationError(
                f"No driver can be found through {path}: {error}.",
                remedy="check that the application runs on this host",
            ) from error


CONTROL_TOKEN_VARIABLE = "MILLRACE_CONTROL_TOKEN"
QUERY_TOKEN_VARIABLE = "MILLRACE_QUERY_TOKEN"


def new_token(path: Path, variable: str = CONTROL_TOKEN_VARIABLE) -> str:
    """Returns a bearer token for clients on this host, and writes it to ``path``, readable by its owner only.

    Args:
        path: the file.
        variable: of the environment, which may name the token; without it a random one is made.
    """
    token = os.environ.get(variable, "").strip() or secrets.token_urlsafe(32)
    write_atomically(path, token.encode(), mode=0o600)
    return token


def read_token(path: Path) -> str:
    """Returns the bearer token in ``path``, without surrounding white space.

    Raises:
        ConfigurationError: the file is not there, not readable or empty.
    """
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            f"The token file {path} cannot be read: {error.strerror}.", remedy="correct control.token.file"
        ) from error
    if not token:
        raise ConfigurationError(f"The token file {path} is empty.", remedy="write a token into it")
    return token
