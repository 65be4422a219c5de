"""Testing topologies without broker and JVM: the same task code as in production, one record or one batch at a time."""

from __future__ import annotations

from millrace.testing.driver import TopologyTestDriver
from millrace.testing.store_views import TestJoinStore, TestOuterJoinStore, TestSuppressionBuffer
from millrace.testing.stores import TestKeyValueStore, TestSessionStore, TestVersionedStore, TestWindowStore
from millrace.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = [
    "TestInputTopic",
    "TestJoinStore",
    "TestKeyValueStore",
    "TestOuterJoinStore",
    "TestOutputTopic",
    "TestRecord",
    "TestSessionStore",
    "TestSuppressionBuffer",
    "TestVersionedStore",
    "TestWindowStore",
    "TopologyTestDriver",
]
