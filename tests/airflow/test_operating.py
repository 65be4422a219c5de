"""Every DAG that operates an application, in a real Airflow on a real application, each with a failure.

The tests share one application and come in the order of the file: it runs first, is stopped, restored and reset.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.home import HOME_VARIABLE
from millrace.install.application import Application
from millrace.install.home import SPECS_VARIABLE
from millrace.install.spec import RunState, load_spec
from millrace.kafka.offsets import committed_offsets
from millrace.operations import OperationState, operations_of, unfinished_operation
from millrace.operations.savepoint_index import read_index
from millrace.operations.suspend import set_run_state
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import SEARCH_PATH
from tests.records import read_topic
from tests.waiting import wait_for

from .conftest import ROOT, WEBHOOK_TOKEN, Platform
from .orders import NAME, SECRET, UNREADY, Orders
from .topologies import DEAD_LETTERS, ORDERS, TOTALS

ENDED = {"success", "failed"}


@pytest.fixture(scope="module")
def orders(platform: Platform, bootstrap_servers: str) -> Iterator[Orders]:
    """The real application, running."""
    application = Orders(platform.home, bootstrap_servers)
    application.start()
    yield application
    platform.run("millrace_stop", "at_the_end", {"application": NAME})


def run_all(platform: Platform, *runs: tuple[str, str, dict[str, Any]]) -> list[str]:
    """Triggers runs at once, and gives how each ended."""
    for dag_id, run_id, conf in runs:
        platform.client.trigger(dag_id, run_id, conf)

    def states() -> list[str]:
        return [platform.client.run_state(dag_id, run_id) for dag_id, run_id, _ in runs]

    wait_for(lambda: set(states()) <= ENDED, limit_s=300)
    return states()


def returned(platform: Platform, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> Any:
    """What a task returned; it is small (case A06)."""
    path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value?map_index={map_index}"
    value = platform.client.request("GET", path)["value"]
    assert len(json.dumps(value, allow_nan=False)) < 48 * 1024
    return value


def test_the_preflight_reports_and_fails_where_a_deployment_would_be_refused(
    platform: Platform, orders: Orders
) -> None:
    states = run_all(
        platform,
        ("millrace_preflight", "fits", {"application": NAME}),
        ("millrace_preflight", "refused", {"application": UNREADY}),
        # A reset of what runs, in the same breath: it is refused, and told to people.
        ("millrace_reset", "refused", {"application": NAME, "dry_run": False}),
    )
    assert states == ["success", "failed", "failed"]
    assert "What to do: deploy it" in platform.end_of_log("millrace_preflight", "fits", "preflight")
    report = returned(platform, "millrace_preflight", "fits", "preflight")
    assert report["action"] == "nothing"
    assert report["refused"] == []
    end = platform.end_of_log("millrace_preflight", "refused", "preflight")
    assert "missing: orders-that-nobody-makes" in end
    assert "What to do: create them" in end
    assert platform.client.task("millrace_reset", "refused", "reset")["try_number"] == 1
    end = platform.end_of_log("millrace_reset", "refused", "reset")
    assert "What happened" in end
    assert "What to do" in end
    assert orders.is_alive()
    told = {message["dag_id"]: message for message in platform.webhook.received}
    assert {"millrace_preflight", "millrace_reset"} <= set(told)
    assert told["millrace_reset"]["application"] == NAME
    assert told["millrace_reset"]["run_id"] == "refused"
    assert told["millrace_reset"]["authorization"] == f"Bearer {WEBHOOK_TOKEN}"


def test_a_reset_is_dry_unless_it_is_told_otherwise(platform: Platform, orders: Orders) -> None:
    before = committed_offsets(orders.admin, NAME)
    assert platform.run("millrace_reset", "dry", {"application": NAME, "stop": True}) == "success"
    assert orders.is_alive()
    assert committed_offsets(orders.admin, NAME).keys() == before.keys()
    log = platform.log("millrace_reset", "dry", "reset")
    assert "would do 1: Stop it" in log
    assert "dry run switched off" in platform.end_of_log("millrace_reset", "dry", "reset")


def test_a_savepoint_is_taken_checked_and_listed_and_a_second_of_its_name_refused(
    platform: Platform, orders: Orders
) -> None:
    conf = {"application": NAME, "name": "first", "verify": True}
    assert platform.run("millrace_savepoint", "taken", conf) == "success"
    assert platform.run("millrace_savepoint", "again", conf) == "failed"
    assert returned(platform, "millrace_savepoint", "taken", "savepoint", map_index=0)["savepoint"] == "first"
    assert "verified" in platform.log("millrace_savepoint", "taken", "savepoint", map_index=0)
    end = platform.end_of_log("millrace_savepoint", "again", "savepoint", map_index=0)
    assert "orders has a savepoint first already" in end
    assert "What to do: choose another name" in end
    known = read_index(platform.home.application(NAME))
    assert [(each.name, each.state) for each in known] == [("first", "COMPLETED")]


def test_compaction_and_audit_go_through_a_running_application(platform: Platform, orders: Orders) -> None:
    states = run_all(
        platform,
        ("millrace_compaction", "now", {"application": NAME, "budget_s": 20, "least_bytes": 0}),
        ("millrace_compaction", "no_hours", {"application": NAME, "window": "at night"}),
        ("millrace_state_audit", "whole", {"application": "all", "sample": 1}),
        ("millrace_state_audit", "no_store", {"application": NAME, "stores": "missing"}),
    )
    assert states == ["success", "failed", "success", "failed"]
    assert "What happened: compact of orders: done" in platform.log(
        "millrace_compaction", "now", "compact", map_index=0
    )
    assert "write it as 22:00-06:00" in platform.end_of_log("millrace_compaction", "no_hours", "applications")
    audited = returned(platform, "millrace_state_audit", "whole", "audit", map_index=0)
    assert audited["agrees"]
    assert audited["keys"] == 5
    assert "it has totals" in platform.end_of_log("millrace_state_audit", "no_store", "audit", map_index=0)
    assert orders.is_alive()


def test_dead_letters_go_back_once(platform: Platform, orders: Orders) -> None:
    orders.send_unreadable()
    conf = {"application": NAME, "letters": "0:0"}
    assert platform.run("millrace_dead_letter_replay", "dry", conf) == "success"
    assert len(read_topic(orders.bootstrap_servers, DEAD_LETTERS)) == 1
    assert platform.run("millrace_dead_letter_replay", "sent", {**conf, "dry_run": False}) == "success"
    assert returned(platform, "millrace_dead_letter_replay", "sent", "replay")["sent"] == {ORDERS: 1}
    # It cannot be read this time either.
    orders.wait_for_dead_letter_records(2)
    assert platform.run("millrace_dead_letter_replay", "twice", {**conf, "dry_run": False}) == "failed"
    end = platform.end_of_log("millrace_dead_letter_replay", "twice", "replay")
    assert "replayed before" in end
    assert "What to do: send it again with --force" in end


def test_a_batch_dag_runs_when_the_stream_has_moved_and_not_otherwise(platform: Platform, orders: Orders) -> None:
    def runs() -> list[dict[str, Any]]:
        return list(platform.client.request("GET", "/dags/reads_what_came/dagRuns")["dag_runs"])

    def events() -> list[dict[str, Any]]:
        found = platform.client.request("GET", "/assets/events?order_by=timestamp")["asset_events"]
        return [event for event in found if (event["extra"] or {}).get("topic") == TOTALS]

    assert platform.run("millrace_stream_assets", "first", {"application": NAME}) == "success"
    run = wait_for(lambda: [each for each in runs() if each["state"] in ENDED], limit_s=120)[0]
    assert run["state"] == "success"
    (extra,) = returned(platform, "reads_what_came", run["dag_run_id"], "read")
    assert (extra["application"], extra["topic"], extra["since"]) == (NAME, TOTALS, {})
    assert extra["offsets"]["0"] > 0
    assert platform.run("millrace_stream_assets", "nothing_new", {"application": NAME}) == "success"
    assert "nothing new" in platform.log("millrace_stream_assets", "nothing_new", "emit", map_index=0)
    assert len(events()) == 1
    orders.send(5)
    orders.wait_until_caught_up()
    states = run_all(
        platform,
        ("millrace_stream_assets", "moved", {"application": NAME}),
        ("millrace_stream_assets", "unreachable", {"application": "payments"}),
    )
    assert states == ["success", "failed"]
    assert "What to do" in platform.end_of_log("millrace_stream_assets", "unreachable", "emit", map_index=0)
    assert [event["extra"]["since"] for event in events()] == [{}, extra["offsets"]]


def test_sensors_wait_in_the_triggerer_until_the_stream_is_ready_and_caught_up(
    platform: Platform, orders: Orders
) -> None:
    states = run_all(platform, ("waits_for_stream", "waits", {}), ("waits_in_vain", "vain", {}))
    assert states == ["success", "failed"]
    seen = returned(platform, "waits_for_stream", "waits", "caught_up")
    assert (seen["verdict"], seen["lag"]) == ("healthy", 0)


def test_a_suspended_application_is_stopped_and_not_deployed(platform: Platform, orders: Orders) -> None:
    assert platform.run("millrace_stop", "suspended", {"application": NAME, "suspend": True}) == "success"
    assert not orders.is_alive()
    assert load_spec(platform.home.spec_path(NAME)).state is RunState.SUSPENDED
    assert "set `state: running`" in platform.end_of_log("millrace_stop", "suspended", "stop")
    states = run_all(
        platform,
        ("millrace_deploy", "refused", {"application": NAME}),
        ("millrace_preflight", "suspended", {"application": NAME}),
    )
    assert states == ["failed", "failed"]
    assert "says suspended" in platform.end_of_log("millrace_preflight", "suspended", "preflight")
    set_run_state(Application(platform.home, NAME), RunState.RUNNING, reason="a test goes on")


def test_a_savepoint_is_restored_once_the_dry_run_is_switched_off(platform: Platform, orders: Orders) -> None:
    def params() -> dict[str, Any]:
        return dict(platform.client.request("GET", "/dags/millrace_restore/details")["params"])

    wait_for(lambda: "orders/first" in params()["savepoint"]["schema"]["examples"], limit_s=120)
    assert params()["dry_run"]["value"] is True
    assert platform.run("millrace_restore", "dry", {"savepoint": "orders/latest"}) == "success"
    assert "would do 1" in platform.log("millrace_restore", "dry", "restore")
    conf = {"savepoint": "orders/first", "dry_run": False}
    states = run_all(
        platform,
        ("millrace_restore", "back", conf),
        ("millrace_restore", "none", {**conf, "savepoint": "orders/missing", "into": UNREADY}),
    )
    assert states == ["success", "failed"]
    assert "millrace_deploy" in platform.end_of_log("millrace_restore", "back", "restore")
    assert "has no savepoint missing" in platform.end_of_log("millrace_restore", "none", "restore")


@pytest.mark.kills
def test_a_reset_whose_task_was_killed_goes_on_at_the_step_that_was_not_completed(
    platform: Platform, orders: Orders
) -> None:
    """Case A04 for operations: the retry resumes what was begun."""
    platform.kill_once_at("reset-internal-topics-begins")
    before = len(operations_of(platform.home.application(NAME)))
    assert platform.run("millrace_reset", "killed", {"application": NAME, "dry_run": False}) == "success"
    assert platform.client.task("millrace_reset", "killed", "reset")["try_number"] == 2
    begun = operations_of(platform.home.application(NAME))[before:]
    assert [(each.plan.operation, each.state) for each in begun] == [("reset", OperationState.COMPLETED)]
    assert begun[0].requested_by == "airflow millrace_reset/killed/reset"
    assert "fence" in begun[0].results
    assert returned(platform, "millrace_reset", "killed", "reset")["checks"]
    assert {topic: each.offset for (topic, _), each in committed_offsets(orders.admin, NAME).items()} == {ORDERS: 0}


@pytest.mark.kills
def test_an_operation_that_somebody_left_is_named_and_carried_on(platform: Platform, orders: Orders) -> None:
    command_line_killed_at(platform, "reset-local-state-begins", "reset", NAME)
    assert platform.run("millrace_compaction", "held", {"application": NAME}) == "failed"
    end = platform.end_of_log("millrace_compaction", "held", "compact", map_index=0)
    assert "unfinished at step local-state" in end
    assert "the DAG millrace_operations" in end
    conf = {"application": NAME}
    assert platform.run("millrace_operations", "dry", conf) == "success"
    assert unfinished_operation(platform.home.application(NAME)) is not None
    platform.kill_once_at("reset-check-begins")
    assert platform.run("millrace_operations", "killed", {**conf, "dry_run": False}) == "failed"
    assert platform.run("millrace_operations", "resumed", {**conf, "dry_run": False}) == "success"
    assert unfinished_operation(platform.home.application(NAME)) is None


def command_line_killed_at(platform: Platform, point: str, *arguments: str) -> None:
    """Runs ``millrace ...`` in a process that dies at a crash point."""
    platform.kill_once_at(point)
    done = subprocess.run(
        [sys.executable, "-m", "millrace", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            DIRECTORY_VARIABLE: str(platform.crash_points),
            HOME_VARIABLE: str(platform.home.root),
            SPECS_VARIABLE: str(platform.home.specs),
            "PYTHONPATH": SEARCH_PATH,
        },
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def test_no_secret_is_in_what_airflow_and_the_applications_have_written(platform: Platform, orders: Orders) -> None:
    """Logs, rendered fields and everything else of Airflow's database; specifications, journals, plans, savepoints."""
    assert "${env:" in (platform.home.application(NAME).path / "spec.yaml").read_text()
    database = platform.airflow.directory / "airflow.db"
    read = 0
    for path in platform.home.root.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue  # what runs removes files, too
        for secret in (SECRET, WEBHOOK_TOKEN):
            assert secret.encode() not in content, path
        read += bool(content)
    assert database.is_relative_to(platform.home.root)
    assert database.exists()
    assert read > 100
