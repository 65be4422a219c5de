"""What stands beside a task's committed offsets."""

from __future__ import annotations

from millrace.kafka.offsets import CommittedOffset
from millrace.task.signature import Signature


def test_a_reset_is_read_back_and_an_offset_that_was_moved_has_no_signature() -> None:
    offsets = {("a", 0): 3, ("b", 0): 7}
    signature = Signature(run=5, partition_times={("a", 0): 9, ("b", 0): -1}, changelogs={"store": 4}, reset=5)
    commits = {
        topic_partition: CommittedOffset(offsets[topic_partition], text)
        for topic_partition, text in signature.to_metadata(offsets).items()
    }
    assert Signature.of(commits) == signature
    moved = {**commits, ("a", 0): CommittedOffset(0, commits["a", 0].metadata)}
    assert Signature.of(moved) is None


def test_without_a_reset_none_is_read_back() -> None:
    texts = Signature(run=5).to_metadata({("a", 0): 3})
    read = Signature.of({topic_partition: CommittedOffset(3, text) for topic_partition, text in texts.items()})
    assert read is not None
    assert read.reset == 0
