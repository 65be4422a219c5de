"""A partition of a topic, as everything but the client library names it."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""Topic and partition."""
