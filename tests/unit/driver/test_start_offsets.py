from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.driver.start_offsets import (
    ChangelogTopic,
    InputTopic,
    LastRun,
    Origin,
    Start,
    StartCandidate,
    SubTopologyInputs,
    starting_offsets,
)
from millrace.errors import OffsetOutOfRangeError, OffsetsMovedError, StateError

IN = InputTopic(name="in", topic_id="u1", log_starts=(2, 3), ends=(10, 20))
STATELESS = SubTopologyInputs(number=0, topics=(IN,))
COUNTS = ChangelogTopic(name="app-counts-changelog", partitions_with_data=(False, True))
STATEFUL = replace(STATELESS, stateful=True, changelogs=(COUNTS,))
OURS = {("in", 0): StartCandidate(offset=5, ours=True), ("in", 1): StartCandidate(offset=20, ours=True)}
LAST = LastRun(offsets={("in", 0): 5, ("in", 1): 20}, topic_ids={"in": "u1"}, partitions={"in": 2})


def decide(inputs: SubTopologyInputs, committed: Any = OURS, last: LastRun | None = LAST) -> dict[Any, Start]:
    return starting_offsets([inputs], committed, last, application_id="app")


def test_our_committed_offsets_are_taken_up_to_the_very_end() -> None:
    expected = {("in", 0): Start(5, Origin.COMMITTED), ("in", 1): Start(20, Origin.COMMITTED)}
    assert decide(STATEFUL) == decide(STATELESS, last=None) == expected


@pytest.mark.parametrize(("reset", "offsets"), [("earliest", [2, 3]), ("latest", [10, 20])])
def test_a_new_application_starts_where_the_reset_setting_says(reset: str, offsets: list[int]) -> None:
    empty = ChangelogTopic(name="c", partitions_with_data=(False, False))
    inputs = replace(STATEFUL, topics=(replace(IN, reset=reset),), changelogs=(empty,))
    starts = decide(inputs, {}, None)
    assert [start.offset for start in starts.values()] == offsets
    assert {start.origin for start in starts.values()} == {Origin.RESET}


def test_an_offset_that_is_missing_where_the_changelog_has_records_stops_the_start() -> None:
    with pytest.raises(
        StateError, match=r"no committed offset for in-1 \(its changelog app-counts-changelog-1"
    ) as raised:
        decide(STATEFUL, {("in", 0): OURS["in", 0]}, None)
    assert "reset" in raised.value.remedy


def test_an_offset_that_expired_stops_the_start_and_the_mirror_is_named() -> None:
    """Case S20."""
    with pytest.raises(StateError, match=r"in-0 \(the last run was at 5\), in-1 \(the last run was at 20\)") as raised:
        decide(STATELESS, {})
    assert "mirror in the status topic" in raised.value.remedy


def test_auto_offset_reset_is_never_used_for_lost_offsets() -> None:
    with pytest.raises(StateError):
        decide(replace(STATELESS, topics=(replace(IN, reset="latest"),)), {})


def test_a_new_partition_of_a_stateless_sub_topology_starts_at_its_first_record_even_with_latest() -> None:
    wider = replace(IN, log_starts=(2, 3, 0), ends=(10, 20, 7), reset="latest")
    starts = decide(replace(STATELESS, topics=(wider,)))
    assert starts["in", 2] == Start(0, Origin.NEW_PARTITION)


def test_a_topic_that_the_last_run_did_not_read_starts_as_new_beside_existing_state() -> None:
    more = InputTopic(name="more", topic_id="u2", log_starts=(0, 0), ends=(4, 4))
    starts = decide(replace(STATEFUL, topics=(IN, more)))
    assert starts["more", 1] == Start(0, Origin.RESET)


def test_an_offset_without_our_signature_stops_the_start() -> None:
    foreign = {**OURS, ("in", 1): StartCandidate(offset=7, ours=False)}
    with pytest.raises(OffsetsMovedError, match="Another client committed offsets of group app: in-1 at 7") as raised:
        decide(STATEFUL, foreign)
    assert "millrace take-over" in raised.value.remedy


def test_a_foreign_offset_of_a_topic_that_is_not_read_is_nobodys_business() -> None:
    foreign = {**OURS, ("other", 0): StartCandidate(offset=7, ours=False)}
    assert ("other", 0) not in decide(STATEFUL, foreign)


def test_an_offset_that_retention_overtook_names_partition_and_both_offsets() -> None:
    """Case S08."""
    topic = replace(IN, log_starts=(75_033, 3), ends=(80_000, 20))
    committed = {**OURS, ("in", 0): StartCandidate(offset=50_456, ours=True)}
    with pytest.raises(OffsetOutOfRangeError, match="in-0: committed 50456, the log starts at 75033") as raised:
        decide(replace(STATEFUL, topics=(topic,)), committed)
    assert raised.value.remedy


def test_an_offset_behind_the_end_of_the_log_is_out_of_range_too() -> None:
    committed = {**OURS, ("in", 0): StartCandidate(offset=11, ours=True)}
    with pytest.raises(OffsetOutOfRangeError, match="in-0: committed 11, the log ends at 10"):
        decide(STATEFUL, committed)


def test_a_topic_that_was_deleted_and_created_again_is_found_by_its_id() -> None:
    with pytest.raises(StateError, match=r"deleted and created again: in \(was u1, is u9\)"):
        decide(replace(STATELESS, topics=(replace(IN, topic_id="u9"),)))


def test_more_input_partitions_than_the_state_has_name_expected_and_actual_for_each_topic() -> None:
    """Case S14."""
    wider = replace(IN, log_starts=(0, 0, 0), ends=(10, 20, 0))
    with pytest.raises(StateError) as raised:
        decide(replace(STATEFUL, topics=(wider,)))
    assert "in: expected: 2, actual: 3" in raised.value.message
    assert "app-counts-changelog: expected: 3, actual: 2" in raised.value.message
    assert "reset" in raised.value.remedy


def test_internal_topics_alone_show_a_changed_number_of_partitions() -> None:
    """Case S14."""
    wider = replace(IN, log_starts=(0, 0, 0), ends=(10, 20, 0))
    with pytest.raises(StateError, match="app-counts-changelog: expected: 3, actual: 2"):
        decide(replace(STATEFUL, topics=(wider,)), last=None)


def test_fewer_partitions_stop_a_stateless_sub_topology_too() -> None:
    narrower = replace(IN, log_starts=(2,), ends=(10,))
    with pytest.raises(StateError, match="in: expected: 2, actual: 1"):
        decide(replace(STATELESS, topics=(narrower,)))


def test_many_problems_are_counted_rather_than_listed() -> None:
    topic = replace(IN, log_starts=(0,) * 30, ends=(9,) * 30)
    committed = {("in", partition): StartCandidate(offset=1, ours=False) for partition in range(30)}
    with pytest.raises(OffsetsMovedError, match="and 20 more"):
        decide(replace(STATELESS, topics=(topic,)), committed, None)
