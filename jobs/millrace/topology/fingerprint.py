"""A short hash of a topology."""

from __future__ import annotations

import hashlib
import json

from millrace.topology.parts import TopologyParts
from millrace.topology.summary import summarize

_HEX_DIGITS = 12


def fingerprint(topology: TopologyParts) -> str:
    """Returns 12 hexadecimal digits of the SHA-256 of the summary's canonical JSON.

    It covers names, kinds of operators, windows, stores, serdes and topics, and not the code of callables: it stays
    when a predicate changes, and over processes and machines.
    """
    canonical = json.dumps(summarize(topology), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_HEX_DIGITS]
