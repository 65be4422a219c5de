"""Where savepoints are kept: files by their hash, on any file system that fsspec knows."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from millrace.errors import ConfigurationError, OperationError, SerializationError
from millrace.operations.savepoints.manifest import Manifest, SavedFile, SavepointState
from millrace.operations.savepoints.repository import SavepointRepository, saved_file


@pytest.fixture(params=["local", "memory"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> SavepointRepository:
    url = str(tmp_path / "kept") if request.param == "local" else f"memory://{uuid4().hex}"
    return SavepointRepository(url, "app")


def keep(repository: SavepointRepository, directory: Path, name: str, *contents: bytes) -> Manifest:
    files: list[SavedFile] = []
    for number, content in enumerate(contents):
        path = directory / name / f"{number}.sst"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        files.append(saved_file(path, directory / name))
        if not repository.has(files[-1]):
            repository.add(path, files[-1])
    manifest = Manifest(name=name, application="app", state=SavepointState.COMPLETED, created_at=len(name), files=files)
    repository.write(manifest)
    return manifest


def test_what_was_kept_comes_back(repository: SavepointRepository, tmp_path: Path) -> None:
    assert repository.names() == []
    manifest = keep(repository, tmp_path, "one", b"a" * 1_000, b"")
    assert repository.names() == ["one"]
    assert repository.read("one") == manifest
    for file in manifest.files:
        repository.verify(file)
        repository.fetch(file, tmp_path / "back")
        assert saved_file(tmp_path / "back", tmp_path).sha256 == file.sha256


def test_files_are_shared_and_go_with_the_last_savepoint_that_needs_them(
    repository: SavepointRepository, tmp_path: Path
) -> None:
    first = keep(repository, tmp_path, "one", b"both" * 100, b"first")
    second = keep(repository, tmp_path, "second", b"both" * 100, b"other")
    assert first.files[0].sha256 == second.files[0].sha256
    assert [each.name for each in repository.manifests()] == ["one", "second"]
    assert repository.remove("one") == len(b"first")
    assert not repository.has(first.files[1])
    for file in second.files:
        repository.verify(file)
    assert repository.remove("second") == len(b"both" * 100) + len(b"other")
    assert repository.names() == []


def test_what_a_crash_left_between_file_and_manifest_is_removed_with_the_next(
    repository: SavepointRepository, tmp_path: Path
) -> None:
    (tmp_path / "orphan").write_bytes(b"orphan")
    orphan = saved_file(tmp_path / "orphan", tmp_path)
    repository.add(tmp_path / "orphan", orphan)
    assert repository.remove_unused() == len(b"orphan")
    assert not repository.has(orphan)


def test_a_missing_file_and_names_that_are_none_are_refused(repository: SavepointRepository, tmp_path: Path) -> None:
    manifest = keep(repository, tmp_path, "one", b"a")
    lost = manifest.files[0].model_copy(update={"sha256": "0" * 64})
    with pytest.raises(OperationError, match="is missing"):
        repository.verify(lost)
    with pytest.raises(OperationError, match="no name of a savepoint"):
        repository.read("../one")
    with pytest.raises(OperationError, match="has no savepoint two"):
        repository.read("two")


def test_an_unknown_file_system_is_named() -> None:
    with pytest.raises(ConfigurationError, match="nosuch"):
        SavepointRepository("nosuch://x", "app")


def test_a_manifest_of_a_newer_version_is_not_read() -> None:
    newer = Manifest(version=99, name="x", application="app", state=SavepointState.COMPLETED, created_at=0)
    with pytest.raises(SerializationError, match="version 99"):
        Manifest.from_json(newer.to_json())
    with pytest.raises(SerializationError, match="cannot be read"):
        Manifest.from_json(b"{}")
