"""Canaries: a clone runs a new version on the same input, is compared with the application, promoted or dropped."""

from millrace.supervise.canary.compare import Comparison, Difference, compare
from millrace.supervise.canary.drop import drop
from millrace.supervise.canary.promote import promote
from millrace.supervise.canary.start import start

__all__ = ["Comparison", "Difference", "compare", "drop", "promote", "start"]
