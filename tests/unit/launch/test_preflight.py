"""What the preflight, and so a deployment and its dry run, say of a topology that could not run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.dsl import Consumed, Materialized, StreamsBuilder
from millrace.install.spec import load_spec
from millrace.launch.preflight import _checks
from millrace.serdes import JsonSerde, StringSerde

READ = Consumed.with_(StringSerde(), JsonSerde())


def holding_a_lock(builder: StreamsBuilder) -> None:
    lock = threading.Lock()
    builder.stream("in", READ).filter(lambda key, value: lock.locked(), named="check").to("out")


def without_a_serde(builder: StreamsBuilder) -> None:
    builder.stream("in", READ).group_by_key().aggregate(
        int, lambda key, value, total: total + value, Materialized.as_("sums")
    )


@pytest.mark.parametrize(
    ("function", "config", "text", "remedy"),
    [
        ("holding_a_lock", {}, "node check cannot be sent to the workers", "init()"),
        (
            "without_a_serde",
            {},
            "Store sums of node KSTREAM-AGGREGATE-0000000001 has no value serde",
            "default.value.serde",
        ),
        ("without_a_serde", {"default.value.serde": "json"}, "1 sub-topologies, 1 stores", ""),
    ],
)
def test_a_topology_that_no_worker_could_run_fails_its_check(
    write_spec: Callable[..., Path], function: str, config: dict[str, str], text: str, remedy: str
) -> None:
    path = write_spec(module=f"{__name__}:{function}", config={"bootstrap.servers": "localhost:1", **config})
    check = next(each for each in _checks(load_spec(path), discards_state=False) if each.name == "topology")
    assert text in check.text
    assert check.ok is (not remedy)
    assert remedy in check.remedy
