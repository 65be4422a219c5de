"""Rules and dashboards, proven by a real Prometheus that scrapes a real run in which each situation is provoked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.embedded.broker import free_ports
from millrace.insight.export import Pushgateway, export_metrics
from millrace.install.application import Application
from millrace.kafka.producer import TaskProducer
from millrace.operations.savepoints import create_savepoint
from scripts.dashboards.all import DASHBOARDS
from tests.application import PREFIX_VARIABLE, ROOT, wait_until
from tests.integration.monitoring.driving import DrivenApplication
from tests.integration.monitoring.servers import Prometheus, configuration, running
from tests.integration.monitoring.topologies import FAIL_VARIABLE
from tests.records import Record

START = 1_700_000_000_000
AIRFLOW = ROOT / "tests" / "unit" / "monitoring" / "recorded" / "airflow.prom"
NOT_RUNNING = {
    ("recovery", "Lag of standby copies"),
    *(
        ("application", title)
        for title in (
            "Where the stream threads' time goes",
            "Commits of the stream threads",
            "Duration of a stream thread's commit, mean",
        )
    ),
}
"""Panels of what is no part of this run: standby copies and stream threads."""


def _records(count: int, *, after_ms: int = 0) -> list[Record]:
    return [Record(f"k{n % 10}".encode(), b"v", START + after_ms + n) for n in range(count)]


def test_every_panel_has_its_series_and_the_alerts_of_what_happens_fire_and_no_other(
    bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "failing"
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    monkeypatch.setenv(FAIL_VARIABLE, str(failing))
    application = DrivenApplication(bootstrap_servers, unique, tmp_path)
    home, name = application.home, application.name

    # What was before: records, and a savepoint of the stopped application. Then its stores are lost.
    application.send(*_records(500))
    application.begin()
    assert application.work()
    application.end()
    create_savepoint(Application(home, name), reason="a test")
    shutil.rmtree(home.root / "state" / name)
    home.application(name).drills.write_bytes(
        orjson.dumps({"finished_at": time.time(), "kind": "worker", "seconds": 4.2, "ok": True}) + b"\n"
    )

    began = time.time()
    gateway_address, address = (f"127.0.0.1:{port}" for port in free_ports(2))
    config = configuration(
        tmp_path / "prometheus", targets=home.scrape_target(name).parent, pushgateway=gateway_address
    )
    server = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / f'tsdb-{unique}'}"]
    server += [f"--web.listen-address={address}"]
    gateway = ["prometheus-pushgateway", f"--web.listen-address={gateway_address}"]
    # Debian's has a file for the whole machine by default.
    gateway += [f"--persistence.file={tmp_path / 'gateway.data'}"]
    with (
        running(gateway, address=gateway_address, log=tmp_path / "gateway.log") as gateway_url,
        running(server, address=address, log=tmp_path / "prometheus.log") as url,
    ):
        prometheus, target = Prometheus(url), Pushgateway(gateway_url, instance=unique)
        try:
            application.begin()
            # First: an application that is up for seconds without an export has the alert of a stale one.
            export_metrics(home, [target])
            application.serve()
            export_metrics(home, [target])
            # Of Airflow, which does not run here: tests/airflow has it send these.
            of_airflow = httpx.put(f"{gateway_url}/metrics/job/airflow", content=AIRFLOW.read_bytes())
            assert of_airflow.is_success, of_airflow.text
            _provoke(application, prometheus, failing)
            with TaskProducer(
                bootstrap_servers, transactional_id=f"{name}-99_0", transaction_timeout_ms=300_000
            ) as hung:
                hung.init()
                hung.begin()
                hung.send(f"{unique}-elsewhere", [b"k"], [b"v"], np.array([START], dtype=np.int64), partition=0)
                hung.flush()
                expected = {
                    "MillraceAbortedTransactions",
                    "MillraceDeadLetters",
                    "MillraceHungTransaction",
                    "MillraceLateRecords",
                    "MillraceRecoveryObjectiveAtRisk",
                    "MillraceSavepointTooOld",
                }

                def exported_and_fired() -> bool:
                    application.supervise()
                    report = export_metrics(home, [target])
                    assert not report.problems
                    return prometheus.firing() >= expected

                wait_until(exported_and_fired, timeout_s=240, what=f"alerts {expected}")
                hung.abort()
            _every_panel_has_series(prometheus, name, began)
            application.state = ApplicationState.ERROR
            expected |= {"MillraceApplicationDown", "MillraceNotProgressing"}
            export_metrics(home, [target])
            wait_until(
                lambda: "MillraceApplicationDown" in prometheus.firing(), timeout_s=120, what="MillraceApplicationDown"
            )
            # The last step of a query lies up to a second before its end.
            fired = prometheus.between('ALERTS{alertstate="firing"}', began, time.time() + 1)
            assert {each["metric"]["alertname"] for each in fired} == expected
            assert {each["metric"].get("application_id") for each in fired} == {name}
        finally:
            application.end()

        # Gone: nothing of it is left anywhere.
        home.application(name).record.unlink()
        assert export_metrics(home, [target]).removed == (name,)
        assert not home.scrape_target(name).exists()
        wait_until(
            lambda: not prometheus.now(f'{{application_id="{name}",__name__=~"millrace_.*|up"}}'),
            timeout_s=60,
            what="no series of the application that is gone",
        )


def _provoke(application: DrivenApplication, prometheus: Prometheus, failing: Path) -> None:
    """Restoration, restart, aborts, dead-letter records and late records, each seen by Prometheus."""

    def seen(expr: str) -> None:
        wait_until(lambda: prometheus.now(expr), timeout_s=60, what=expr)

    assert application.work()
    seen("sum(millrace_stream_task_restore_records_total) > 500")
    application.end()
    # A driver that is silent does not progress, and that is known within seconds.
    wait_until(lambda: "MillraceNotProgressing" in prometheus.firing(), timeout_s=60, what="MillraceNotProgressing")
    application.begin()
    application.serve(restarts=1)
    for step in range(5):
        application.send(*_records(100, after_ms=1_000 * (step + 1)))
        assert application.work()
        seen(f"sum(millrace_stream_task_process_total) >= {100 * (step + 1)}")
    # A window of ten seconds later, the ones before are closed.
    application.send(*_records(10, after_ms=60_000))
    assert application.work()
    application.send(*_records(30, after_ms=5_000), Record(b"k1", b"x" * 5_000, START + 60_100))
    failing.touch()
    for _ in range(3):
        assert not application.work()
    seen('sum(millrace_stream_task_transactions_total{outcome="aborted"}) >= 3')
    failing.unlink()
    assert application.work()
    seen('sum(millrace_stream_task_dropped_records_total{reason="late"}) >= 20')
    seen("sum(millrace_stream_task_dead_letters_total) == 1")


def _every_panel_has_series(prometheus: Prometheus, name: str, began: float) -> None:
    now = time.time()
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                expr = query.expr.replace("$application", name).replace("$subtopology", ".*")
                found = prometheus.between(expr, began, now)
                if (dashboard.uid, panel.title) in NOT_RUNNING:
                    assert not found, panel.title
                    continue
                assert found, f"{dashboard.title}: {panel.title}: {expr}"
                others = [each["metric"] for each in found if each["metric"].get("application_id", name) != name]
                assert not others, (expr, others, prometheus.now(f'{{application_id="{others[0]["application_id"]}"}}'))
