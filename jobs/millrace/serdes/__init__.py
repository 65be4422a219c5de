"""Serdes: bytes to values and back, per value and in columns."""

from __future__ import annotations

from millrace.serdes.base import Serde

__all__ = ["Serde"]
