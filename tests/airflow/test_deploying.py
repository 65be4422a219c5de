"""Deployments of new versions, canaries, recovery drills and the export, in a real Airflow on a real application.

The tests share one application and come in the order of the file; they come before those of other modules that leave
applications without a broker, which no export has whole.
"""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from millrace import operations, supervise
from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.record import read_record
from millrace.install.spec import load_spec_file
from millrace.operations.savepoints import list_savepoints
from millrace.supervise.canary.clone import clone_of
from tests.records import read_topic
from tests.waiting import wait_for

from .conftest import Platform
from .orders import Orders
from .topologies import PARCEL_TOTALS, PARCELS

NAME = "parcels"
CLONE = clone_of(NAME)
DEPLOY, CANARY, DRILL, EXPORT = (
    "millrace_deploy",
    "millrace_canary",
    "millrace_recovery_drill",
    "millrace_metrics_export",
)
DOES_NOT_RUN = ["{python}", "-c", "import sys; sys.exit('the new version does not work')"]


@pytest.fixture(scope="module")
def parcels(platform: Platform, bootstrap_servers: str) -> Iterator[Orders]:
    """An application that Airflow gets to know while it runs, deployed by its DAG."""
    application = Orders(platform.home, bootstrap_servers, NAME, "parcels", PARCELS, PARCEL_TOTALS)
    application.specify()
    application.create_topics()
    application.send(20)
    for dag_id in (DEPLOY, CANARY, DRILL):
        wait_for(lambda dag_id=dag_id: NAME in choices(platform, dag_id), limit_s=120)  # type: ignore[misc]
    assert platform.run(DEPLOY, "parcels_first", {"application": NAME}, limit_s=300) == "success"
    application.wait_until_caught_up()
    yield application
    for name in (CLONE, NAME):
        operations.stop(Application(platform.home, name))


def choices(platform: Platform, dag_id: str) -> list[str]:
    """The applications that the form of a DAG offers."""
    params = platform.client.request("GET", f"/dags/{dag_id}/details")["params"]
    return list(params["application"]["schema"]["enum"])


@contextmanager
def steady_input(application: Orders) -> Iterator[None]:
    """Parcels arrive all the time."""
    end = threading.Event()

    def send() -> None:
        while not end.is_set():
            application.send(5)
            end.wait(0.2)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        end.set()
        sender.join()


def counted(application: Orders) -> dict[bytes, int]:
    """The last total of each customer, once everything is processed."""
    application.wait_until_caught_up()
    return {
        record.key or b"": struct.unpack(">q", record.value or b"")[0]
        for record in read_topic(application.bootstrap_servers, PARCEL_TOTALS)
    }


def sent(application: Orders) -> Counter[bytes]:
    """The true totals."""
    return Counter(record.key or b"" for record in read_topic(application.bootstrap_servers, PARCELS))


@pytest.mark.kills
def test_a_drill_kills_a_worker_and_measures_its_recovery(platform: Platform, parcels: Orders) -> None:
    with steady_input(parcels):
        assert platform.run(DRILL, "parcels_drilled", {"application": NAME, "dry_run": False}) == "success"
    (line,) = [orjson.loads(each) for each in platform.home.application(NAME).drills.read_text().splitlines()]
    assert line["ok"]
    assert 0 < line["seconds"] < 300
    assert f"parcels: recovered, task {line['task']} committed" in platform.log(DRILL, "parcels_drilled", "drill")
    assert counted(parcels) == sent(parcels)
    # Nothing arrives any more.
    assert platform.run(DRILL, "parcels_nothing", {"application": NAME, "dry_run": False}) == "failed"
    assert "What to do:" in platform.end_of_log(DRILL, "parcels_nothing", "drill")
    with pytest.raises(OperationError, match="answered 400"):
        platform.client.trigger(DRILL, "parcels_refused", {"application": "for_production"})


def test_the_export_has_what_was_measured_and_names_what_could_not_be_had(platform: Platform, parcels: Orders) -> None:
    file = platform.home.root / "prometheus" / "exported.prom"
    assert platform.run(EXPORT, "parcels_all_there", {}) == "success"
    assert f'application_id="{NAME}"' in file.read_text()
    unreachable = Orders(platform.home, "localhost:1", "unreachable", "parcels")
    unreachable.specify(
        launcher={"command": ["{python}", "-c", "input()"], "kind": "local"}, preflight={"enabled": False}
    )
    file.unlink()
    try:
        supervise.deploy(Application(platform.home, unreachable.name))
        assert platform.run(EXPORT, "parcels_unreachable", {}) == "failed"
    finally:
        operations.stop(Application(platform.home, unreachable.name))
        platform.home.spec_path(unreachable.name).unlink()
        platform.home.application(unreachable.name).record.unlink()
    end = platform.end_of_log(EXPORT, "parcels_unreachable", "export")
    assert "unreachable" in end
    assert "What to do: fix what is named" in end
    assert f'application_id="{NAME}"' in file.read_text(), "what could be had is exported"


def test_a_new_version_that_does_not_run_is_rolled_back_to_the_last_good_one(
    platform: Platform, parcels: Orders
) -> None:
    good = load_spec_file(platform.home.spec_path(NAME)).hash
    parcels.specify(launcher={"command": DOES_NOT_RUN}, rollback_on_failure=True, upgrade_mode="savepoint")
    """As the specification says: this run or supervision, whichever sees it first, goes to it and back."""
    assert platform.run(DEPLOY, "parcels_broken", {"application": NAME}, limit_s=400) == "failed"
    end = platform.end_of_log(DEPLOY, "parcels_broken", "deploy")
    assert "parcels: rolled_back" in end
    assert "What to do: correct the specification" in end
    record = read_record(platform.home.application(NAME))
    assert record is not None
    assert record.spec_hash == good
    assert supervise.reconcile(Application(platform.home, NAME)).action == "nothing"
    parcels.send(10)
    assert counted(parcels) == sent(parcels)


@pytest.mark.parametrize("mode", ["savepoint", "stateless"])
def test_a_new_version_goes_on_as_the_mode_says(platform: Platform, parcels: Orders, mode: str) -> None:
    """The specification says it, so that it holds whoever is the first to see the new one: this run, or supervision."""
    before, savepoints = sent(parcels), len(list_savepoints(Application(platform.home, NAME)))
    parcels.specify(upgrade_mode=mode)
    assert platform.run(DEPLOY, f"parcels_{mode}", {"application": NAME}, limit_s=400) == "success"
    record = read_record(platform.home.application(NAME))
    assert record is not None
    assert record.spec_hash == load_spec_file(platform.home.spec_path(NAME)).hash
    parcels.send(10)
    found = counted(parcels)
    if mode == "savepoint":
        assert found == sent(parcels)
        assert len(list_savepoints(Application(platform.home, NAME))) == savepoints + 1
    else:
        assert found == sent(parcels) - before, "counted from nothing, on from the committed offsets"


def test_a_canary_that_differs_fails_its_comparison_and_is_dropped(
    platform: Platform, parcels: Orders, tmp_path: Path
) -> None:
    def run(action: str, run_id: str, **conf: Any) -> str:
        ended = platform.run(CANARY, run_id, {"application": NAME, "action": action, **conf}, limit_s=400)
        assert "What to do" in platform.end_of_log(CANARY, run_id, "canary")
        return ended

    document = yaml.safe_load(platform.home.spec_path(NAME).read_text())
    new = tmp_path / "new.yaml"
    new.write_text(yaml.safe_dump({**document, "module": "tests.airflow.topologies:parcels_counted_double"}))
    assert run("start", "without_file", dry_run=False) == "failed"
    assert run("start", "dry", spec=str(new)) == "success"
    assert not platform.home.spec_path(CLONE).exists()
    assert run("start", "started", spec=str(new), dry_run=False) == "success"
    supervise.wait_until_ready(Application(platform.home, CLONE))
    parcels.send(10)
    parcels.wait_until_caught_up()
    Orders(platform.home, parcels.bootstrap_servers, CLONE, topic=PARCELS).wait_until_caught_up()
    assert run("compare", "compared") == "failed"
    assert "5 differences among 5 keys" in platform.end_of_log(CANARY, "compared", "canary")
    assert run("promote", "dry_promotion") == "success"
    assert run("drop", "dropped", dry_run=False) == "success"
    assert not platform.home.spec_path(CLONE).exists()
    assert load_spec_file(platform.home.spec_path(NAME)).spec.module.endswith(":parcels")
    assert parcels.is_alive()
