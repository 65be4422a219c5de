"""``make check``: every check runs, also after one that failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKS: tuple[tuple[str, ...], ...] = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "ruff", "format", "--check", "."),
    (sys.executable, "-m", "mypy"),
    (str(Path(sys.executable).with_name("lint-imports")),),
    (sys.executable, "scripts/audit.py"),
)


def main() -> int:
    """0 only if all passed."""
    failed = 0
    for command in CHECKS:
        sys.stdout.write(f"$ {Path(command[0]).name} {' '.join(command[1:])}\n")
        sys.stdout.flush()
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
