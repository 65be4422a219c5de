"""``python -m scripts.wheel DIRECTORY``: builds the wheel of this checkout there."""

from __future__ import annotations

import subprocess
import sys

from scripts.audit import find_uv
from scripts.suite import ROOT


def main(directory: str) -> int:
    """0 only if it was built."""
    uv = find_uv()
    if uv is None:
        sys.stderr.write("error: uv was not found. Remedy: run `make setup`\n")
        return 1
    return subprocess.run([uv, "build", "--wheel", "--out-dir", directory, str(ROOT)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
