"""Damages the files of a task's database, as a failing disk would."""

from __future__ import annotations

from pathlib import Path

from millrace.state.directory import DATABASE_DIRECTORY

_EVERY = 512
_LARGER_BYTES = 8_192


def flip_bytes(task_directory: Path, pattern: str = "*.sst") -> int:
    """Inverts one byte in every 512 of the files of a database.

    Returns:
        How many bytes those were.
    """
    flipped = 0
    for path in (task_directory / DATABASE_DIRECTORY).glob(pattern):
        with path.open("r+b") as file:
            content = file.read()
            for offset in range(_EVERY // 2, len(content), _EVERY):
                file.seek(offset)
                file.write(bytes([content[offset] ^ 0xFF]))
                flipped += 1
    return flipped


def flip_middle(task_directory: Path) -> int:
    """Inverts 16 bytes in the middle of each larger table of a database, where its data are: it still opens.

    Returns:
        How many tables there were.
    """
    every = (task_directory / DATABASE_DIRECTORY).glob("*.sst")
    tables = [path for path in every if path.stat().st_size > _LARGER_BYTES]
    for path in tables:
        with path.open("r+b") as file:
            offset = path.stat().st_size // 2
            file.seek(offset)
            content = file.read(16)
            file.seek(offset)
            file.write(bytes(byte ^ 0xFF for byte in content))
    return len(tables)
