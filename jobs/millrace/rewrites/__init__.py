"""Named optimisations of the logical graph: pure functions, applied only where asked for."""

from __future__ import annotations

from millrace.rewrites.registry import REWRITES, Rewrite, apply_rewrites

__all__ = ["REWRITES", "Rewrite", "apply_rewrites"]
