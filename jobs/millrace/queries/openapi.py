"""The description of the query server's interface: an OpenAPI document, and an HTML page."""

from __future__ import annotations

import html
from typing import Any

from millrace.queries.refusals import Reason
from millrace.queries.requests import LOOKUPS, MAX_LIMIT, Operation

_ABOUT: dict[Operation, tuple[str, tuple[str, ...]]] = {
    Operation.GET: (
        "One key of a key-value store, or of a versioned one (with as_of: the version valid at that time).",
        ("key", "as_of"),
    ),
    Operation.GET_MANY: (
        f"Up to {MAX_LIMIT} keys at once, by repeating `key`: `results` in their order, and `tasks` with all else.",
        ("key", "as_of"),
    ),
    Operation.RANGE: ("The keys of a key-value store from `from` to `to`, both included.", ("from", "to")),
    Operation.PREFIX: ("The keys of a key-value store that begin with `prefix`.", ("prefix",)),
    Operation.ALL: ("Everything that has not expired.", ()),
    Operation.FETCH: (
        "The windows of a key by their start, or its sessions by their end, within the times.",
        ("key", "from_time", "to_time"),
    ),
    Operation.FETCH_ALL: (
        "The windows of all keys by their start, or sessions by their end, within the times.",
        ("from_time", "to_time"),
    ),
    Operation.VERSIONS: (
        "The versions of a key of a versioned store that are valid within the times.",
        ("key", "from_time", "to_time"),
    ),
}
_PARAMETERS: dict[str, tuple[str, str]] = {
    "key": ("string", "The key: text and numbers as they are, others as JSON, bytes as base64:..."),
    "from": ("string", "First key, written like `key`; open where it is missing."),
    "to": ("string", "Last key."),
    "prefix": ("string", "What the keys begin with: text, or base64:..."),
    "from_time": ("integer", "Milliseconds since the epoch, inclusive."),
    "to_time": ("integer", "Milliseconds since the epoch, inclusive."),
    "as_of": ("integer", "Milliseconds since the epoch; the newest version where it is missing."),
    "limit": ("integer", f"Most entries of the answer, 1 to {MAX_LIMIT}; 100 where it is missing."),
    "page": ("string", "`next` of the answer before."),
    "partition": (
        "integer",
        "Only this partition. Where it is missing: that of the key by Kafka's partitioner, or all in turn.",
    ),
    "stale": ("boolean", "Answer also from a task that is being restored or runs elsewhere, as far as it is."),
}


def document() -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millrace interactive queries",
            "version": "1",
            "description": "Reads the committed state of a running application. Nothing here changes anything.",
        },
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/stores": {"get": {"summary": "The stores.", "responses": {"200": {"description": "A list."}}}},
            **{f"/stores/{{store}}/{operation}": {"get": _operation(operation)} for operation in Operation},
        },
    }


def page() -> str:
    """Returns the same as an HTML page."""
    rows = "".join(
        f"<tr><td><code>/stores/{{store}}/{operation}</code><td>{html.escape(_ABOUT[operation][0])}"
        f"<td>{', '.join(f'<code>{name}</code>' for name in _names(operation))}"
        for operation in Operation
    )
    names = "".join(f"<dt><code>{name}</code><dd>{html.escape(text)}" for name, (_, text) in _PARAMETERS.items())
    errors = "".join(f"<dt>{reason.status_code}<dd><code>{reason}</code>" for reason in Reason)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Millrace interactive queries</title>"
        "<style>body{font:16px sans-serif;margin:2em;max-width:60em}td{padding:.3em .8em;vertical-align:top}</style>"
        f"<h1>Interactive queries</h1><p>See also <a href=/openapi.json>openapi.json</a>.<table>{rows}</table>"
        f"<h2>Parameters</h2><dl>{names}</dl><h2>Refusals</h2><dl>{errors}</dl>"
    )


def _names(operation: Operation) -> list[str]:
    paging = () if operation in LOOKUPS else ("limit", "page")
    return [*_ABOUT[operation][1], *paging, "partition", "stale"]


def _operation(operation: Operation) -> dict[str, Any]:
    store = {"name": "store", "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": name == "key",
            "description": _PARAMETERS[name][1],
            "schema": {"type": _PARAMETERS[name][0]},
        }
        for name in _names(operation)
    ]
    codes: dict[int, list[str]] = {}
    for reason in Reason:
        codes.setdefault(reason.status_code, []).append(str(reason))
    return {
        "summary": _ABOUT[operation][0],
        "parameters": [store, *parameters],
        "responses": {
            "200": {
                "description": "The answer, with task, host, position and age.",
                "content": {"application/json": {}},
            },
            "307": {"description": "Another host has the task; Location is the same request there."},
            **{str(code): {"description": ", ".join(names)} for code, names in sorted(codes.items())},
        },
    }
