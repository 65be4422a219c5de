"""The command ``millrace``."""

from millrace.cli.application import main

__all__ = ["main"]
