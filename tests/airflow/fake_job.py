"""A stand-in for a driver: speaks its control protocol, and hangs, dies, stalls or babbles on cue.

Usage: ``python fake_job.py <run directory>``. Its mood is in ``mood`` in the run directory, read at each request:
``well`` (default), ``stalled`` (lag without progress), ``html`` and ``empty`` (an unreadable status), ``deaf`` (ignores
POST /stop and SIGTERM), ``wide`` (5,000 partitions with lag), ``untried`` (a second sub-topology that has input and has
processed nothing).
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from millrace.processes import ProcessIdentity

DIRECTORY = Path(sys.argv[1])
STARTED = time.time()
TOKEN = "secret-of-the-fake"


def mood() -> str:
    try:
        return (DIRECTORY / "mood").read_text().strip()
    except FileNotFoundError:
        return "well"


def status() -> dict[str, object]:
    now = time.time()
    stalled = mood() == "stalled"
    lag: dict[str, dict[int, int]] = {"payments": {0: 7 if stalled else 0}}
    if mood() == "wide":
        lag = {"payments": {partition: partition for partition in range(5000)}}
    untried = {1: {"active": True, "lag": 3, "lag_since": now, "last_progress_at": now}}
    return {
        "application_id": DIRECTORY.name,
        "state": "RUNNING",
        "driver": {"host": "localhost", **ProcessIdentity.current().to_mapping()},
        "driver_epoch": 1,
        "lag": lag,
        "progress": {
            0: {
                "batches": 3,
                "records": int((now - STARTED) * 10),
                "active": True,
                "lag": 7 if stalled else 0,
                "lag_since": STARTED if stalled else None,
                "last_progress_at": STARTED if stalled else now,
            },
            **(untried if mood() == "untried" else {}),
        },
        "started_at": STARTED,
        "updated_at": now,
    }


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/health"):
            self.answer(200, b"{}")
        elif mood() == "html":
            self.answer(200, b"<html><body>Bad gateway</body></html>")
        elif mood() == "empty":
            self.answer(200, b"")
        else:
            self.answer(200, json.dumps(status()).encode())

    def do_POST(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, b"{}")
            return
        self.answer(202, b"{}")
        if mood() != "deaf":
            (DIRECTORY / "stopped_gracefully").write_text(str(os.getpid()))
            threading.Thread(target=self.server.shutdown).start()

    def answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    if mood() == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mood() == "crashes":
        sys.exit("the fake job was told to crash")
    with (DIRECTORY / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    (DIRECTORY / "token").write_text(TOKEN)
    control = {
        **ProcessIdentity.current().to_mapping(),
        "address": f"http://127.0.0.1:{server.server_port}",
        "token_file": str(DIRECTORY / "token"),
    }
    (DIRECTORY / "control.json.new").write_text(json.dumps(control))
    (DIRECTORY / "control.json.new").replace(DIRECTORY / "control.json")
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
