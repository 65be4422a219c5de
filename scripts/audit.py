"""The dependencies of ``uv.lock``: known vulnerabilities by ``uv audit``, and what can be told without a network.

Where the service that knows of vulnerabilities cannot be reached, that is said, and the check does not fail: it would
depend on the network. ``python scripts/audit.py --service-url URL`` asks a mirror of osv.dev.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "uv.lock"
REGISTRY = "https://pypi.org/simple"
_FOUND = 1
"""How ``uv audit`` ends where it found something; with more, it could not look."""
_REFUSED_LICENCE = re.compile(r"\b(AGPL|SSPL|BUSL)|(?<!L)GPL|non-?commercial|proprietary", re.IGNORECASE)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 only where nothing is wrong as far as it could be looked.

    Args:
        arguments: more of ``uv audit``; those of the process by default.
    """
    problems = [*unpinned(LOCK), *licences(locked(LOCK))]
    for problem in problems:
        say(f"AUDIT: {problem}")
    vulnerable = _vulnerable(sys.argv[1:] if arguments is None else arguments)
    return int(bool(problems) or vulnerable)


def locked(lock: Path) -> list[str]:
    """The names of the packages that a lock file has, the project's own left out."""
    return [each["name"] for each in _packages(lock)]


def unpinned(lock: Path) -> Iterator[str]:
    """What of a lock file is not an archive of the registry with its SHA-256."""
    for package in _packages(lock):
        name = f"{package['name']} {package.get('version', '')}".strip()
        if package["source"] != {"registry": REGISTRY}:
            yield f"{name} comes from {package['source']}, not from {REGISTRY}"
        archives = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
        if not archives or any(not each.get("hash", "").startswith("sha256:") for each in archives):
            yield f"{name} has an archive without SHA-256"


def licences(names: Sequence[str]) -> Iterator[str]:
    """Those of installed packages that do not go with ours, Apache-2.0. One of several that may be chosen suffices."""
    for name in names:
        try:
            metadata = importlib.metadata.metadata(name).json
        except importlib.metadata.PackageNotFoundError:
            continue  # For another system or another Python.
        told = str(metadata.get("license_expression") or metadata.get("license") or "")
        choices = [
            *(re.split(r"\bOR\b", told.splitlines()[0]) if told else []),
            *(each for each in metadata.get("classifier", []) if each.startswith("License ::")),
        ]
        if choices and all(_REFUSED_LICENCE.search(each) for each in choices):
            yield f"{name} is under {' / '.join(choices)}"


def _packages(lock: Path) -> list[dict[str, Any]]:
    packages = tomllib.loads(lock.read_text())["package"]
    return [each for each in packages if "editable" not in each["source"]]


def _vulnerable(arguments: Sequence[str]) -> bool:
    uv = find_uv()
    if uv is None:
        say("AUDIT: NOT LOOKED FOR VULNERABILITIES: uv is not installed (make setup)")
        return False
    asked = subprocess.run(
        [uv, "audit", "--frozen", "--preview-features", "audit-command", *arguments],
        cwd=ROOT,
        env={**os.environ, "UV_HTTP_RETRIES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode > _FOUND:
        reason = " ".join(asked.stderr.split())
        say(f"AUDIT: NOT LOOKED FOR VULNERABILITIES, since the service that knows of them was not reached: {reason}")
        return False
    say(asked.stdout or asked.stderr)
    return asked.returncode == _FOUND


def find_uv() -> str | None:
    """uv as ``scripts/setup.sh`` finds or installs it."""
    homes = (Path(sys.prefix).parent / ".tools" / "bin", Path.home() / ".local" / "bin", Path.home() / ".cargo" / "bin")
    return shutil.which("uv") or shutil.which("uv", path=os.pathsep.join(map(str, homes)))


def say(text: str) -> None:
    """A line for the reader."""
    sys.stdout.write(f"{text.rstrip()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
