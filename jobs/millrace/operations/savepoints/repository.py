"""Where savepoints are: manifests by name, and files by their hash, which savepoints share.

The layout below the repository's URL is ``<application>/savepoints/<name>.json`` and
``<application>/files/<first two digits>/<hash>``. Everything is written under another name and moved into place.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec

from millrace.errors import ConfigurationError, OperationError
from millrace.operations.savepoints.manifest import Manifest, SavedFile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK_BYTES = 4 * 1024 * 1024
_PARTIAL = ".partial-"


class SavepointRepository:
    """The savepoints of one application.

    Args:
        url: as fsspec takes it: a path, ``s3://...``, ``gs://...``, ``hdfs://...``, ``memory://...``.
        application: name of the application.

    Raises:
        ConfigurationError: fsspec knows no such file system, or lacks a library for it.
    """

    def __init__(self, url: str, application: str) -> None:
        self.url = url
        self._application = application
        try:
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(
                f"Savepoints cannot be kept at {url}: {error}.",
                remedy="correct `savepoints.directory` of the specification, or install the library that it needs",
            ) from error
        self._root = f"{str(root).rstrip('/')}/{application}"

    def names(self) -> list[str]:
        """Names of all savepoints, in whatever state, sorted."""
        with self._failing("listing savepoints"):
            self._fs.invalidate_cache()
            if not self._fs.isdir(f"{self._root}/savepoints"):
                return []
            paths = self._fs.ls(f"{self._root}/savepoints", detail=False)
            files = [str(path).rpartition("/")[2] for path in paths]
        return sorted(file.removesuffix(".json") for file in files if file.endswith(".json") and _PARTIAL not in file)

    def manifests(self) -> list[Manifest]:
        """All savepoints, the oldest first."""
        return sorted(map(self.read, self.names()), key=lambda manifest: (manifest.created_at, manifest.name))

    def read(self, name: str) -> Manifest:
        """One savepoint.

        Raises:
            OperationError: there is none of that name.
            SerializationError: its manifest cannot be read.
        """
        with self._failing(f"reading savepoint {name}"):
            self._fs.invalidate_cache()
            if not self._fs.exists(self._manifest(name)):
                raise OperationError(
                    f"{self._application} has no savepoint {name} in {self.url}.",
                    remedy=f"see `millrace savepoint list {self._application}`",
                )
            data = self._fs.cat_file(self._manifest(name))
        return Manifest.from_json(data)

    def write(self, manifest: Manifest) -> None:
        """Put a manifest in its place, as a whole."""
        with self._failing(f"writing savepoint {manifest.name}"), tempfile.NamedTemporaryFile() as file:
            file.write(manifest.to_json())
            file.flush()
            self._put(Path(file.name), self._manifest(manifest.name))

    def has(self, file: SavedFile) -> bool:
        """Whether the content of a file is there, as far as its size tells."""
        with self._failing(f"looking for {file.path}"):
            path = self._file(file.sha256)
            return bool(self._fs.exists(path)) and int(self._fs.size(path)) == file.size

    def add(self, source: Path, file: SavedFile) -> None:
        """Keep the content of a file."""
        with self._failing(f"copying {source}"):
            self._put(source, self._file(file.sha256))

    def fetch(self, file: SavedFile, target: Path) -> None:
        """Copy the content of a file to the local disk, and check it on the way.

        Raises:
            OperationError: it is missing or damaged.
        """
        with self._failing(f"fetching {file.path}"), target.open("wb") as out:
            for block in self._blocks(file):
                out.write(block)

    def verify(self, file: SavedFile) -> None:
        """Read a file's content and compare it with what the manifest says.

        Raises:
            OperationError: it is missing or damaged.
        """
        with self._failing(f"verifying {file.path}"):
            for _ in self._blocks(file):
                pass

    def remove(self, name: str) -> int:
        """Remove a savepoint, and the files that no other one needs. A crash midway is made good by the next removal.

        Returns:
            how many bytes were freed.
        """
        with self._failing(f"deleting savepoint {name}"):
            if self._fs.exists(self._manifest(name)):
                self._fs.rm_file(self._manifest(name))
        return self.remove_unused()

    def remove_unused(self) -> int:
        """Remove the files that no savepoint needs; returns how many bytes were freed."""
        used = {file.sha256 for manifest in self.manifests() for file in manifest.files}
        freed = 0
        with self._failing("removing files that no savepoint needs"):
            self._fs.invalidate_cache()
            if not self._fs.isdir(f"{self._root}/files"):
                return 0
            for path, details in self._fs.find(f"{self._root}/files", detail=True).items():
                if str(path).rpartition("/")[2] not in used:
                    self._fs.rm_file(path)
                    freed += int(details["size"])
        return freed

    def _blocks(self, file: SavedFile) -> Iterator[bytes]:
        path = self._file(file.sha256)
        if not self._fs.exists(path):
            raise OperationError(
                f"The content of {file.path} is missing: {path}.", remedy="restore another savepoint, or bring it back"
            )
        digest, size = hashlib.sha256(), 0
        with self._fs.open(path, "rb") as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
                yield block
        if size != file.size or digest.hexdigest() != file.sha256:
            raise OperationError(
                f"The content of {file.path} is damaged: {path} has {size} bytes and the hash "
                f"{digest.hexdigest()[:12]}, not {file.size} and {file.sha256[:12]}.",
                remedy="restore another savepoint, or bring the file back from a copy",
            )

    def _put(self, source: Path, target: str) -> None:
        directory, _, name = target.rpartition("/")
        self._fs.makedirs(directory, exist_ok=True)
        partial = f"{directory}/{_PARTIAL}{uuid4().hex}-{name}"
        self._fs.put_file(str(source), partial)
        self._fs.mv(partial, target)

    def _manifest(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise OperationError(
                f"{name!r} is no name of a savepoint.", remedy="use letters, digits, dots, hyphens and underscores"
            )
        return f"{self._root}/savepoints/{name}.json"

    def _file(self, sha256: str) -> str:
        return f"{self._root}/files/{sha256[:2]}/{sha256}"

    @contextmanager
    def _failing(self, doing: str) -> Iterator[Any]:
        try:
            yield
        except OSError as error:
            raise OperationError(
                f"{self.url}: {doing} failed: {type(error).__name__}: {error}.",
                remedy="see that the place is reachable and has room, and resume the operation",
            ) from error


def saved_file(path: Path, directory: Path) -> SavedFile:
    """A file on the local disk as a manifest lists it.

    Args:
        path: the file.
        directory: what its path is relative to.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return SavedFile(
            path=path.relative_to(directory).as_posix(), size=path.stat().st_size, sha256=digest.hexdigest()
        )
