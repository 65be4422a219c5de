from __future__ import annotations

from dataclasses import replace

from millrace.driver.start_commits import commits_of_new_partitions, commits_of_new_run, number_of_run
from millrace.driver.start_offsets import Origin, Start
from millrace.kafka.offsets import CommittedOffset
from millrace.task.signature import Signature

OLD, NEW = ("orders", 0), ("accounts", 0)  # the new one sorts in front
KNOWN = Signature(
    run=3, partition_times={OLD: 77}, changelogs={"counts": 12}, stream_times={"agg": 70}, counts={"n": 1}
)


def _known(offset: int) -> dict[tuple[str, int], CommittedOffset]:
    return {OLD: CommittedOffset(offset, KNOWN.to_metadata({OLD: offset})[OLD])}


def test_a_new_application_gets_signed_offsets_everywhere() -> None:
    starts = {OLD: Start(2, Origin.RESET), NEW: Start(4, Origin.RESET)}
    commits = commits_of_new_partitions([[OLD, NEW]], starts, {}, run=1)
    assert {topic_partition: offset for topic_partition, (offset, _) in commits.items()} == {OLD: 2, NEW: 4}
    assert Signature.of(
        {topic_partition: CommittedOffset(*commit) for topic_partition, commit in commits.items()}
    ) == Signature(run=1, partition_times={OLD: -1, NEW: -1})


def test_a_task_without_new_partitions_is_left_alone() -> None:
    starts = {OLD: Start(2, Origin.COMMITTED)}
    assert commits_of_new_partitions([[OLD]], starts, _known(2), run=4) == {}


def test_a_new_partition_in_front_does_not_hide_what_the_task_knows_of_its_state() -> None:
    starts = {OLD: Start(9, Origin.COMMITTED), NEW: Start(0, Origin.RESET)}
    commits = commits_of_new_partitions([[OLD, NEW]], starts, _known(9), run=4)
    assert (commits[OLD][0], commits[NEW][0]) == (9, 0)
    signature = Signature.of({topic_partition: CommittedOffset(*commit) for topic_partition, commit in commits.items()})
    assert signature is not None
    assert (signature.run, signature.changelogs, signature.stream_times) == (4, {"counts": 12}, {"agg": 70})
    assert signature.partition_times[OLD] == 77
    assert signature.counts == {}


def test_a_task_without_a_commit_learns_of_the_reset_from_those_of_other_tasks() -> None:
    """What read only a repartition topic, which a reset deletes, would take the stores of another host for its own."""
    text = Signature(run=7, reset=7).to_metadata({OLD: 2})[OLD]
    starts = {OLD: Start(2, Origin.COMMITTED), NEW: Start(0, Origin.RESET)}
    commits = commits_of_new_partitions([[OLD], [NEW]], starts, {OLD: CommittedOffset(2, text)}, run=8)
    signature = Signature.of({NEW: CommittedOffset(*commits[NEW])})
    assert signature is not None
    assert (signature.run, signature.reset) == (8, 7)


def test_a_new_run_signs_the_same_offsets_and_leaves_foreign_commits_alone() -> None:
    text = KNOWN.to_metadata({OLD: 9})[OLD]
    signed = commits_of_new_run({OLD: CommittedOffset(9, text), NEW: CommittedOffset(4, "somebody's")}, run=5)
    assert signed.keys() == {OLD}
    offset, metadata = signed[OLD]
    assert offset == 9
    assert Signature.of({OLD: CommittedOffset(9, metadata)}) == replace(KNOWN, run=5)


def test_a_run_has_a_higher_number_than_every_commit_even_if_the_status_topic_was_lost() -> None:
    commits = {OLD: CommittedOffset(9, KNOWN.to_metadata({OLD: 9})[OLD]), NEW: CommittedOffset(4, "somebody's")}
    assert number_of_run(commits, epoch=1) == 4
    assert number_of_run(commits, epoch=9) == 9
    assert number_of_run({}, epoch=1) == 1
