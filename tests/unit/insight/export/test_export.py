from __future__ import annotations

import base64
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from millrace.errors import BrokerUnavailableError, OperationError
from millrace.insight.export import Pushgateway, TextFile, export_metrics
from millrace.insight.export.exported import Clusters
from millrace.insight.export.from_broker import own_transactional_ids
from millrace.insight.export.from_driver import eos_overhead
from millrace.insight.export.series import Sample, openmetrics, text_format
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.spec import load_spec
from millrace.kafka.transactions import parse_table
from millrace.launch import observe
from millrace.launch.driver import UNRESPONSIVE
from millrace.metrics import exported as m
from millrace.metrics.exported import ExportPart
from millrace.operations import stop
from millrace.operations.journal import OperationJournal, OperationState
from millrace.operations.operation import OperationPlan
from millrace.supervise import deploy, wait_until_ready

NAME = "payments"
FILES = (ExportPart.SUPERVISION, ExportPart.OPERATIONS)
FAKE_JOB = Path(__file__).resolve().parents[3] / "airflow" / "fake_job.py"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir()
    document = {
        "name": NAME,
        "module": "apps.nothing:build",
        # No process listens there: what needs the broker fails, the rest does not.
        "config": {"bootstrap.servers": "127.0.0.1:1", "state.dir": str(tmp_path / "state")},
        "launcher": {"command": [sys.executable, str(FAKE_JOB), "{run_directory}"]},
        "preflight": {"enabled": False},
        "health": {"recovery_objective_s": 90},
        "savepoints": {"interval_s": 600},
    }
    home.spec_path(NAME).write_text(yaml.safe_dump(document))
    return home


@pytest.fixture
def running(home: Home):
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    yield home
    stop(Application(home, NAME), limits=UNRESPONSIVE)


def _values(samples, metric) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in samples if sample.metric is metric}


def test_what_the_broker_does_not_answer_is_left_out_and_told_and_the_rest_is_exported(
    running: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.install.connection.ADMIN_TIMEOUT_S", 1.0)
    operations = OperationJournal(running.application(NAME), "20260101T000000.000000-reset")
    operations.begin(OperationPlan(operation="reset", application=NAME, reason="", decisions={}))
    operations.step_begins("fence")
    operations.step_failed("fence", "no broker")
    running.application(NAME).drills.write_bytes(
        b'{"finished_at": "2026-01-01T00:00:00+00:00", "kind": "worker", "seconds": 7.5, "ok": true}\n'
        b'{"finished_at": 1767225600, "kind": "driver", "seconds": 60, "ok": false}\n'
        b'{"finished_at": 17'
    )
    report = export_metrics(running, clock=lambda: 1000.0)
    (export,) = report.applications
    samples = export.samples
    assert {"changelogs", "lag", "recovery", "transactions", "eos"} == {str(part) for part in export.problems}
    parts = _values(samples, m.EXPORT_PART_OK)
    assert parts["lag",] == 0
    assert parts["savepoints",] == 1
    assert _values(samples, m.EXPORT_TIMESTAMP) == {(): 1000.0}
    assert _values(samples, m.WANTED) == _values(samples, m.HEALTHY) == {(): 1.0}
    assert _values(samples, m.RECOVERY_OBJECTIVE) == {(): 90.0}
    assert _values(samples, m.SAVEPOINT_INTERVAL) == {(): 600.0}
    assert _values(samples, m.SAVEPOINT_LAST) == {}
    assert _values(samples, m.OPERATIONS)["reset", "failed"] == 1
    assert _values(samples, m.OPERATIONS)["reset", "completed"] == 0
    assert _values(samples, m.DRILL_DURATION) == {("worker",): 7.5}
    assert _values(samples, m.DRILL_LAST) == {("worker", "passed"): 1767225600.0, ("driver", "failed"): 1767225600.0}
    assert _values(samples, m.DRILLS)["driver", "failed"] == 1
    assert _values(samples, m.DISK_SIZE)[()] >= _values(samples, m.DISK_FREE)[()] > 0


def test_a_cluster_that_does_not_answer_is_asked_once_for_all_parts(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.install.connection.ADMIN_TIMEOUT_S", 1.0)
    clusters = Clusters()
    config = load_spec(home.spec_path(NAME)).streams_config()
    with pytest.raises(BrokerUnavailableError) as first:
        clusters.administrator(config)
    with pytest.raises(BrokerUnavailableError) as second:
        clusters.administrator(config)
    assert second.value is first.value


def test_an_operation_lasts_from_its_begin_to_its_end(home: Home) -> None:
    directory = home.application(NAME)
    directory.path.mkdir(parents=True)
    directory.record.write_bytes(orjson.dumps({"application": NAME, "desired": "stopped"}))
    journal = OperationJournal(directory, "20260101T000000.000000-compact")
    began = time.time()
    journal.begin(OperationPlan(operation="compact", application=NAME, reason="", decisions={}))
    journal.end(OperationState.COMPLETED, "")
    (export,) = export_metrics(home, parts=FILES).applications
    assert 0 <= _values(export.samples, m.OPERATION_DURATION)["compact",] < 60
    assert _values(export.samples, m.OPERATION_LAST)["compact", "completed"] >= began - 1
    assert _values(export.samples, m.WANTED) == {(): 0.0}


def test_the_look_of_an_export_or_a_person_is_none_of_a_supervisor(running: Home) -> None:
    (export,) = export_metrics(running, parts=FILES).applications
    assert _values(export.samples, m.SUPERVISED) == {}
    from millrace.supervise import reconcile

    reconcile(Application(running, NAME))
    supervised = _values(export_metrics(running, parts=FILES).applications[0].samples, m.SUPERVISED)[()]
    observe(Application(running, NAME))
    assert _values(export_metrics(running, parts=FILES).applications[0].samples, m.SUPERVISED) == {(): supervised}


def test_prometheus_finds_a_driver_while_it_is_wanted_and_at_its_new_address_after_a_restart(running: Home) -> None:
    path = running.scrape_target(NAME)
    control = orjson.loads(running.application(NAME).control.read_bytes())
    expected = [
        {"targets": [control["address"].removeprefix("http://")], "labels": {"application_id": NAME}},
    ]
    assert orjson.loads(path.read_bytes()) == expected
    os.kill(control["pid"], 9)
    observe(Application(running, NAME))
    assert orjson.loads(path.read_bytes()) == expected, "a scrape that fails is how Prometheus learns of it"
    deploy(Application(running, NAME))
    wait_until_ready(Application(running, NAME), timeout_s=240)
    again = orjson.loads(running.application(NAME).control.read_bytes())["address"]
    assert orjson.loads(path.read_bytes())[0]["targets"] == [again.removeprefix("http://")]
    stop(Application(running, NAME), limits=UNRESPONSIVE)
    assert not path.exists()


def test_a_text_file_holds_the_applications_of_the_last_export_and_no_other(home: Home, tmp_path: Path) -> None:
    for name in ("first", "second"):
        directory = home.application(name)
        directory.path.mkdir(parents=True)
        directory.record.write_bytes(orjson.dumps({"application": name, "desired": "stopped"}))
        target = home.scrape_target(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("[]")
    file = tmp_path / "metrics" / "exported.prom"
    export_metrics(home, [TextFile(file)], parts=FILES)
    assert _applications(file) == {"first", "second"}
    shutil.rmtree(home.application("second").path)
    export_metrics(home, [TextFile(file)], parts=FILES)
    assert _applications(file) == {"first"}
    assert not home.scrape_target("second").exists()
    assert home.scrape_target("first").exists()


def _applications(file: Path) -> set[str]:
    families = text_string_to_metric_families(file.read_text())
    return {sample.labels["application_id"] for family in families for sample in family.samples}


def test_a_login_of_the_pushgateway_goes_to_it_and_into_no_log_or_error(caplog: pytest.LogCaptureFixture) -> None:
    logins: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            logins.append(self.headers["authorization"])
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    caplog.set_level(logging.DEBUG)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever).start()
        gateway = Pushgateway(f"http://me:hunter2@127.0.0.1:{server.server_port}")
        with pytest.raises(
            OperationError, match=rf"The Pushgateway http://127.0.0.1:{server.server_port} refused"
        ) as no:
            gateway.write({"payments": ()})
        server.shutdown()
    assert logins == ["Basic " + base64.b64encode(b"me:hunter2").decode()]
    assert "127.0.0.1" in caplog.text
    assert "hunter2" not in f"{no.value} {caplog.text} {gateway}"


def test_promtool_finds_nothing_wrong_with_an_export_and_openmetrics_has_an_end() -> None:
    every = {"a": [Sample(metric, 1.0, tuple("x" for _ in metric.labels)) for metric in m.EXPORTED_METRICS]}
    done = subprocess.run(["promtool", "check", "metrics"], input=text_format(every), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert openmetrics(every).endswith(b"# EOF\n")


def test_a_value_without_its_labels_is_refused() -> None:
    with pytest.raises(OperationError, match="millrace_changelog_size_bytes"):
        Sample(m.CHANGELOG_SIZE, 1.0)
    with pytest.raises(OperationError, match="nan"):
        Sample(m.RESTARTS, float("nan"))


def test_the_overhead_of_exactly_once_is_the_share_of_the_commit_phase() -> None:
    series = "".join(
        f'millrace_stream_task_phase_seconds_total{{application_id="a",subtopology="0",task="{task}",phase="{phase}"}} '
        f"{seconds}\n"
        for task in ("0_0", "0_1")
        for phase, seconds in {"read": 1, "process": 2, "commit": 1, "store": 0}.items()
    )
    assert eos_overhead("# TYPE millrace_stream_task_phase_seconds counter\n" + series) == {"0": 0.25}


def test_an_application_has_its_own_transactional_ids_and_not_those_of_one_whose_name_begins_alike() -> None:
    own = own_transactional_ids("orders")
    assert all(own.fullmatch(f"orders-{end}") for end in ("0_0", "12_7", "start", "driver", "compaction"))
    assert not any(own.fullmatch(name) for name in ("orders-eu-0_0", "orders-0", "myorders-0_0", "orders-0_0-x"))


def test_the_table_of_the_brokers_tool_is_read_by_its_head() -> None:
    text = (
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\nx-0_0          \t1          \t7\tOngoing   \t\n"
    )
    assert parse_table(text)[0]["TransactionState"] == "Ongoing"
    with pytest.raises(OperationError, match="no table"):
        parse_table("Exception in thread")
