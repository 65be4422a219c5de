"""Canaries: a clone runs a new version on the same input, is compared with the application, promoted or dropped."""

from millrace.ops.canary.compare import Comparison, Difference, compare
from millrace.ops.canary.drop import drop
from millrace.ops.canary.promote import promote
from millrace.ops.canary.start import start

__all__ = ["Comparison", "Difference", "compare", "drop", "promote", "start"]
