"""A program ``kubectl`` for tests: the launcher's commands, asked of the server that ``TEST_KUBERNETES_API`` names.

What it prints where it fails is what kubectl 1.32 prints (tests/unit/install/launchers/recorded/SOURCES.md).
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any

PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets", "Pod": "pods"}


def ask(method: str, namespace: str, kind: str, name: str = "", document: object = None) -> tuple[int, Any]:
    server = os.environ["TEST_KUBERNETES_API"]
    path = f"/api/v1/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{server}{path}", data=data, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return 200, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except urllib.error.URLError:
        host = server.removeprefix("http://")
        sys.exit(f"The connection to the server {host} was refused - did you specify the right host or port?")


def main() -> None:
    arguments = sys.argv[1:]
    namespace = arguments[arguments.index("--namespace") + 1]
    verb, *rest = [each for each in arguments if not each.startswith("--") and each != namespace]
    if verb == "apply":
        for each in json.load(sys.stdin)["items"]:
            ask("PATCH", namespace, PLURALS[each["kind"]], each["metadata"]["name"], each)
        return
    name = rest[-1]
    code, answer = ask("DELETE" if verb == "delete" else "GET", namespace, "pods", name)
    if code == 404 and verb != "logs":
        return
    if code != 200:
        sys.exit(f"Error from server ({answer['reason']}): {answer['message']}")
    said = {"get": json.dumps(answer), "delete": f'pod "{name}" deleted', "logs": "what the driver said"}
    sys.stdout.write(said[verb] + "\n")


main()
