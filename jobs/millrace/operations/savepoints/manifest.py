"""The manifest of a savepoint: the document that is written last, and by which everything else is found."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace.driver.savepoint import Checkpoints
from millrace.errors import SerializationError
from millrace.operations.savepoint_index import KnownSavepoint

FORMAT_VERSION = 1
_LONGEST_KNOWN_REASON = 200
"""Characters of a reason that the index of an application's savepoints has."""


class SavepointState(StrEnum):
    """The state of a savepoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SavedFile(_Model):
    """A file of the checkpoints. Its content lies in the repository under its hash."""

    path: str = Field(description="Relative to the checkpoints' directory, for example 1_3/rocksdb/000012.sst.")
    size: int = Field(description="Bytes.")
    sha256: str = Field(description="Hash of the content, hexadecimal.")


class Manifest(_Model):
    """A savepoint.

    Offsets, changelogs and files are those of one moment at which no task was inside a batch.
    """

    version: int = FORMAT_VERSION
    name: str
    application: str
    state: SavepointState
    created_at: float = Field(description="Seconds since the epoch.")
    completed_at: float | None = Field(None, description="Seconds since the epoch.")
    reason: str = Field("", description="Why it was taken; of one that failed, why.")
    millrace_version: str = ""
    operation: str = Field("", description="Id of the operation that takes it.")
    parent: str | None = Field(None, description="The savepoint before, whose files were not copied again.")
    from_running: bool = Field(True, description="Whether the application ran.")
    fingerprint: str = Field("", description="Of the topology.")
    summary: dict[str, Any] = Field(default_factory=dict, description="Of the topology, to compare others with.")
    description: str = Field("", description="The topology as text.")
    config: dict[str, str] = Field(default_factory=dict, description="Settings that matter to the state.")
    point: Checkpoints | None = Field(None, description="Offsets, logs and tasks.")
    files: list[SavedFile] = Field(default_factory=list)
    copied_bytes: int = Field(0, description="What this savepoint added to the repository.")

    @property
    def size(self) -> int:
        """Bytes of its files, those that it shares with others included."""
        return sum(file.size for file in self.files)

    def known(self) -> KnownSavepoint:
        """Returns what the index of an application's savepoints has of it."""
        return KnownSavepoint(
            name=self.name,
            state=str(self.state),
            created_at=self.created_at,
            bytes=self.size,
            reason=self.reason[:_LONGEST_KNOWN_REASON],
        )

    def to_json(self) -> bytes:
        """Returns the manifest as UTF-8 JSON."""
        return self.model_dump_json(indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Returns the inverse of :meth:`to_json`; unknown fields are ignored.

        Raises:
            SerializationError: it is none, or of a newer version.
        """
        try:
            manifest = cls.model_validate_json(data)
        except ValidationError as error:
            problem = error.errors()[0]
            raise SerializationError(
                f"A manifest of a savepoint cannot be read: {problem['loc']}: {problem['msg']}.",
                remedy="read it with the version of Millrace that wrote it, or bring the file back from a copy",
            ) from error
        if manifest.version > FORMAT_VERSION:
            raise SerializationError(
                f"The manifest of savepoint {manifest.name} has version {manifest.version}; this version of Millrace "
                f"reads up to {FORMAT_VERSION}.",
                remedy="use the version of Millrace that wrote it",
            )
        return manifest
