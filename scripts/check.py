"""``make check``: every check runs, also after one that failed, and beside the others: most of them take one core."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKS: tuple[tuple[str, ...], ...] = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "ruff", "format", "--check", "."),
    (sys.executable, "-m", "mypy"),
    (str(Path(sys.executable).with_name("lint-imports")),),
    (sys.executable, "scripts/audit.py"),
    (sys.executable, "-m", "pytest", "--collect-only", "-q", "--disable-warnings", "tests"),
)
"""The last one finds tests that cannot be imported, and compiles all of them, which each worker would do otherwise."""


def main(checks: Sequence[Sequence[str]] = CHECKS) -> int:
    """Say of each check what it ends with, or all that it says where it failed.

    Args:
        checks: command lines.

    Returns:
        0 only if all passed.
    """
    with ThreadPoolExecutor(len(checks)) as pool:
        ended = list(pool.map(_run, checks))
    return int(any(ended))


def _run(command: Sequence[str]) -> bool:
    """Whether a check failed."""
    check = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    failed = check.returncode != 0
    said = check.stdout.strip()
    last = said.rpartition("\n")[2]
    name = " ".join([Path(command[0]).name, *command[1:]])
    # In one piece: others write meanwhile.
    sys.stdout.write(f"$ {name}\n{said if failed else last}\n")
    sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
