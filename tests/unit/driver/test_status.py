from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus, newest_records
from millrace.errors import SerializationError


def test_a_status_survives_json(make_status: Callable[..., Any]) -> None:
    status = make_status(
        offsets={"in": {0: 5, 1: 7}},
        lag={"in": {0: 2, 1: 1}},
        progress={0: SubTopologyStatus(lag=3, restore_remaining={"0_1": 4})},
        topology_summary={"sub_topologies": [1, "two", None]},
    )
    assert ApplicationStatus.from_json(status.to_json()) == status
    assert status.total_lag == 3


def test_unknown_fields_of_a_newer_driver_are_ignored(make_status: Callable[..., Any]) -> None:
    fields = orjson.loads(make_status(progress={0: SubTopologyStatus()}).to_json())
    fields["colour"] = "blue"
    fields["progress"]["0"]["mood"] = "good"
    assert ApplicationStatus.from_json(orjson.dumps(fields)).application_id == "app"


@pytest.mark.parametrize("data", [b"{", b"{}", b"[]", b'"RUNNING"'])
def test_what_is_no_status_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="cannot be read"):
        ApplicationStatus.from_json(data)


def test_unknown_lag_is_not_zero(make_status: Callable[..., Any]) -> None:
    assert make_status().total_lag is None


def record(epoch: int, note: str) -> bytes:
    return orjson.dumps({"driver_epoch": epoch, "note": note})


def test_the_highest_epoch_wins_and_of_it_the_last_record() -> None:
    records = [
        ("a", record(1, "old")),
        ("a", record(2, "new")),
        ("b", record(5, "other")),
        ("a", record(2, "newest")),
        ("a", record(1, "late record of a fenced driver")),
    ]
    assert newest_records(records) == {"a": record(2, "newest"), "b": record(5, "other")}


def test_a_tombstone_forgets_what_came_before() -> None:
    assert newest_records([("a", record(9, "x")), ("a", None), ("a", record(1, "y"))]) == {"a": record(1, "y")}
    assert newest_records([("a", record(9, "x")), ("a", None)]) == {}


def test_foreign_records_hide_nobody() -> None:
    junk = [b"\xff", b"[]", b"{}", b'{"driver_epoch": "x"}', b""]
    assert newest_records([("a", record(1, "x")), *(("a", each) for each in junk)]) == {"a": record(1, "x")}


def test_the_identity_is_that_of_the_process() -> None:
    identity = DriverIdentity.of_this_process()
    assert identity.process.pid == os.getpid()
    assert identity.process.is_alive()
