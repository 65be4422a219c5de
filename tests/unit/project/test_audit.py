"""The audit of dependencies, against a service that knows of a vulnerability, and without one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from millrace.embedded.broker import free_ports
from scripts.audit import LOCK, licences, locked, unpinned

ROOT = Path(__file__).resolve().parents[3]
ARCHIVE = '{ url = "https://x/a.whl", hash = "sha256:00" }'


class Service(BaseHTTPRequestHandler):
    """As osv.dev: it knows of one vulnerability, of every version of Jinja2."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        known = [{"id": "TEST-1", "modified": "2026-01-01T00:00:00Z"}]
        self.answer({
            "results": [{"vulns": known} if each["package"]["name"] == "jinja2" else {} for each in asked["queries"]]
        })  # fmt: skip

    def do_GET(self) -> None:
        affected = {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "ranges": []}
        self.answer({"id": "TEST-1", "modified": "2026-01-01T00:00:00Z", "summary": "bad", "affected": [affected]})

    def answer(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/audit.py", "--service-url", url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def test_a_known_vulnerability_fails_and_is_named(service: str) -> None:
    result = audit(service)
    assert result.returncode == 1
    assert "TEST-1" in result.stdout


def test_an_unreachable_service_is_said_and_does_not_fail() -> None:
    result = audit(f"http://127.0.0.1:{free_ports(1)[0]}")
    assert result.returncode == 0
    assert "NOT LOOKED FOR VULNERABILITIES" in result.stdout


def test_every_locked_package_is_pinned_by_a_hash_and_under_a_licence_that_goes_with_ours() -> None:
    names = locked(LOCK)
    assert "confluent-kafka" in names
    assert list(unpinned(LOCK)) == []
    assert list(licences(names)) == []


@pytest.mark.parametrize(
    ("source", "archives", "problem"),
    [
        ('{ git = "https://x/a.git" }', f"wheels = [{ARCHIVE}]", "comes from"),
        ('{ registry = "https://pypi.org/simple" }', 'wheels = [{ url = "https://x/a.whl" }]', "without SHA-256"),
        ('{ registry = "https://pypi.org/simple" }', "", "without SHA-256"),
    ],
)
def test_what_is_not_pinned_is_named(tmp_path: Path, source: str, archives: str, problem: str) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(f'[[package]]\nname = "a"\nversion = "1"\nsource = {source}\n{archives}\n')
    (found,) = unpinned(lock)
    assert found.startswith("a 1 ")
    assert problem in found


@pytest.mark.parametrize(
    ("told", "refused"),
    [
        ("AGPL-3.0-only", True),
        ("GPL-2.0-or-later", True),
        ("LGPL-3.0-only", False),
        ("MIT OR GPL-2.0-only", False),
        ("Apache-2.0", False),
    ],
)
def test_a_licence_that_does_not_go_with_ours_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, refused: bool
) -> None:
    information = tmp_path / "a_test_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: a-test-package\nVersion: 1\nLicense-Expression: {told}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert bool(list(licences(["a-test-package"]))) == refused
