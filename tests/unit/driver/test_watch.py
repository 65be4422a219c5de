from __future__ import annotations

from millrace.driver.watch import foreign_commits
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.offsets import CommittedOffset
from millrace.task.signature import Signature


def test_only_commits_without_our_signature_are_foreign() -> None:
    ours = Signature(run=3).to_metadata({("in", 0): 7})[("in", 0)]
    of_kafka_streams = CommitMetadata(5, {}).encode()
    commits = {
        ("in", 0): CommittedOffset(7, ours),
        ("in", 1): CommittedOffset(8, ""),
        ("in", 2): CommittedOffset(9, of_kafka_streams),
        ("in", 3): CommittedOffset(10, "a note of somebody's"),
        # Kafka Streams went on from our offset 7, and kept what it did not know of the metadata.
        ("in", 4): CommittedOffset(11, Signature(run=3).to_metadata({("in", 4): 7})[("in", 4)]),
    }
    assert foreign_commits(commits) == {("in", 1): 8, ("in", 2): 9, ("in", 3): 10, ("in", 4): 11}
