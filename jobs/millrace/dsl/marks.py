"""``python -m millrace.dsl.marks``: what a function builds, seen by an interpreter that has imported nothing before.

A process that has imported a module keeps it as it was then. Whoever asks what changed code builds asks a new one.
"""

from __future__ import annotations

import sys

import orjson

from millrace.config import StreamsConfig
from millrace.dsl.loading import load_topology
from millrace.errors import MillraceError
from millrace.topology.node_marks import node_marks


def main() -> None:
    """Reads ``module`` and ``settings`` as JSON from standard input; writes ``marks``, or ``problem``, as JSON."""
    asked, answers = orjson.loads(sys.stdin.buffer.read()), sys.stdout.buffer
    sys.stdout = sys.stderr  # what modules print while they are imported is no answer
    try:
        topology = load_topology(asked["module"], StreamsConfig.from_mapping(asked["settings"]))
        answer: dict[str, object] = {"marks": node_marks(topology)}
    except MillraceError as error:
        answer = {"problem": error.message}
    answers.write(orjson.dumps(answer))
    answers.flush()


if __name__ == "__main__":
    main()
