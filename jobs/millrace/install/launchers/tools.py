"""Running the command-line tools of clusters: ``kubectl``, ``yarn`` and ``spark-submit``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace.errors import OperationError

_NOISE = re.compile(r"\s+at |\s+\.\.\. |[EWIF]\d{4} |\s*$")


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """The output of a tool.

    Args:
        code: its exit code.
        text: standard output.
        messages: standard error.
    """

    code: int
    text: str
    messages: str

    @property
    def problem(self) -> str:
        """The last lines that it said, in one, without stack traces and kubectl's log."""
        said = [line for line in (self.messages.strip() or self.text.strip()).splitlines() if not _NOISE.match(line)]
        return " | ".join(line.strip() for line in said[-2:])[-500:] or f"exit code {self.code}"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program.

    Args:
        program: its name or path.
        remedy: what to do where it is missing.
        environment: variables beside those of the caller.
    """

    program: str
    remedy: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, arguments: Sequence[str], *, timeout_s: float, given: str | None = None) -> ToolOutput:
        """Runs the tool to its end.

        Args:
            arguments: its arguments.
            timeout_s: longest time that it may take, seconds; it is killed then.
            given: its standard input.

        Raises:
            OperationError: it is missing, or did not end in time. A failure of the tool is in the output's code.
        """
        environment = {**os.environ, **self.environment}
        try:
            done = subprocess.run(
                [self.program, *arguments],
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                env=environment,
                check=False,
            )
        except OSError as error:
            raise OperationError(f"{self.program} cannot be run: {error.strerror}.", remedy=self.remedy) from error
        except subprocess.TimeoutExpired as error:
            raise OperationError(
                f"{self.program} {' '.join(arguments[:2])} did not end within {timeout_s:g} s.",
                remedy="see whether its cluster answers",
            ) from error
        return ToolOutput(code=done.returncode, text=done.stdout, messages=done.stderr)
