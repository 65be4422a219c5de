from __future__ import annotations

from millrace.control.start_commits import commits_of_new_partitions
from millrace.control.start_offsets import Origin, Start
from millrace.task.signature import Signature

OLD, NEW = ("orders", 0), ("accounts", 0)  # the new one sorts in front
KNOWN = Signature(
    run=3, partition_times={OLD: 77}, changelogs={"counts": 12}, stream_times={"agg": 70}, counts={"n": 1}
)


def test_a_new_application_gets_signed_offsets_everywhere() -> None:
    starts = {OLD: Start(2, Origin.RESET), NEW: Start(4, Origin.RESET)}
    commits = commits_of_new_partitions([[OLD, NEW]], starts, {}, run=1)
    assert {place: offset for place, (offset, _) in commits.items()} == {OLD: 2, NEW: 4}
    assert Signature.from_metadata({place: text for place, (_, text) in commits.items()}) == Signature(
        run=1, partition_times={OLD: -1, NEW: -1}
    )


def test_a_task_without_new_partitions_is_left_alone() -> None:
    starts = {OLD: Start(2, Origin.COMMITTED)}
    assert commits_of_new_partitions([[OLD]], starts, KNOWN.to_metadata([OLD]), run=4) == {}


def test_a_new_partition_in_front_does_not_hide_what_the_task_knows_of_its_state() -> None:
    starts = {OLD: Start(9, Origin.COMMITTED), NEW: Start(0, Origin.RESET)}
    commits = commits_of_new_partitions([[OLD, NEW]], starts, KNOWN.to_metadata([OLD]), run=4)
    assert (commits[OLD][0], commits[NEW][0]) == (9, 0)
    signature = Signature.from_metadata({place: text for place, (_, text) in commits.items()})
    assert signature is not None
    assert (signature.run, signature.changelogs, signature.stream_times) == (4, {"counts": 12}, {"agg": 70})
    assert signature.partition_times[OLD] == 77
    assert signature.counts == {}
