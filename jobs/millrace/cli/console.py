"""The output of commands: results to standard output, everything about the work itself to standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from millrace.errors import MillraceError

# Scripts read what is printed, so nothing may be wrapped without a terminal.
_WIDTH = None if sys.stdout.isatty() else 200

out = Console(soft_wrap=True, highlight=False, width=_WIDTH)
messages = Console(stderr=True, soft_wrap=True, highlight=False)


def show_error(error: BaseException, *, verbose: bool) -> None:
    """Prints one line that says what happened and what to do; with ``verbose`` the traceback before it."""
    if verbose:
        messages.print_exception()
    if isinstance(error, MillraceError):
        text, remedy = error.message, error.remedy
    else:
        text, remedy = f"{type(error).__name__}: {error}", "run it again with --verbose to see where it comes from"
    line = f"[bold red]error:[/] {escape(_one_line(text))}"
    if remedy:
        line += f" [bold]Remedy:[/] {escape(_one_line(remedy))}"
    messages.print(line)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Shows that something takes a while; the function that it gives reports the progress.

    On a terminal the line changes in place; elsewhere each step is a line of its own.
    """
    if not messages.is_terminal:
        messages.print(escape(text))
        yield lambda step: messages.print(escape(step))
        return
    with messages.status(escape(text)) as status:
        yield lambda step: status.update(escape(step))
