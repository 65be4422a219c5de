"""Operations on an application in pods; the cluster is in memory, kubectl and spark-submit are the tests' own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from millrace.errors import ConfigurationError, MillraceError, OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.launchers import refuse_state_elsewhere
from millrace.install.launchers.kubernetes import account, pod_templates, specification_map
from millrace.install.launchers.kubernetes.manifests import base_name
from millrace.install.record import read_record
from millrace.install.spec import load_spec, load_spec_file
from millrace.launch import Reason, Verdict, observe
from millrace.launch.driver import StopLimits
from millrace.operations import stop
from millrace.operations.audit import audit
from millrace.operations.savepoints.create import create_savepoint
from millrace.supervise import deploy, reconcile
from tests.kubernetes_api import KubernetesApi, install_kubectl

RECORDED = Path(__file__).with_name("recorded")
FAST = StopLimits(graceful_s=0, terminate_s=1, kill_s=1)
SUBMITS = """
import json, os, sys, urllib.error, urllib.request
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orders-driver"}, "spec": {}}
url = os.environ["TEST_KUBERNETES_API"] + "/api/v1/namespaces/streams/pods"
try:
    urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(pod).encode(), method="POST"))
except urllib.error.HTTPError as error:
    sys.exit("Exception in thread \\"main\\" KubernetesClientException: " + json.load(error)["message"])
"""
FAILS = """
import sys
sys.exit('Exception in thread "main" SparkException: no scheduler\\n\\tat org.apache.spark.Foo')
"""
Write = Callable[..., Home]


@pytest.fixture
def cluster(
    program: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesApi]:
    """A cluster without pods."""
    with KubernetesApi() as api:
        program("spark-submit", SUBMITS)
        for name, value in install_kubectl(tmp_path / "kubectl", api.url).items():
            monkeypatch.setenv(name, value)
        yield api


@pytest.fixture
def write(home: Home, cluster: KubernetesApi) -> Write:
    """Writes the specification of an application in pods."""

    def write(*, launcher: dict[str, Any] | None = None, **changes: Any) -> Home:
        document = {
            "name": "orders",
            "module": "apps.nothing:build",
            "config": {"bootstrap.servers": "localhost:1"},
            "preflight": {"enabled": False},
            "restart": {"initial_backoff_s": 0.0},
            "launcher": {
                "kind": "kubernetes",
                "master": f"k8s://{cluster.url}",
                "kubernetes": {"image": "registry/millrace:1", "namespace": "streams", "secrets": ["kafka"]},
                **(launcher or {}),
            },
            **changes,
        }
        home.spec_path("orders").write_text(yaml.safe_dump(document))
        return home

    return write


def set_state(cluster: KubernetesApi, recorded: str) -> None:
    cluster.set_status("orders-driver", json.loads((RECORDED / f"pod-{recorded}.json").read_text()))


def test_a_deployed_application_is_observed_restarted_and_stopped(write: Write, cluster: KubernetesApi) -> None:
    home = write()
    assert deploy(Application(home, "orders")).steps[-1] == "launched pod streams/orders-driver"
    first = cluster.pod("orders-driver")["metadata"]["uid"]
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.WAITING, Reason.STARTING)
    assert seen.summary()["driver"] == "pod streams/orders-driver"
    assert deploy(Application(home, "orders")).action == "nothing"

    set_state(cluster, "oom")
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.DEAD, Reason.PROCESS_DIED)
    assert "OOMKilled (exit code 137)" in seen.text
    outcome = reconcile(Application(home, "orders"))
    assert (outcome.action, outcome.steps) == (
        "restart",
        ("deleted pod streams/orders-driver", "launched pod streams/orders-driver"),
    )
    assert cluster.pod("orders-driver")["metadata"]["uid"] != first
    logs = home.application("orders").log.with_name("driver.log.1").read_text()
    assert "what the driver said" in logs

    assert stop(Application(home, "orders"), limits=FAST).steps == ("deleted pod streams/orders-driver",)
    assert cluster.of_kind("Pod") == []
    assert observe(Application(home, "orders")).verdict is Verdict.STOPPED
    assert stop(Application(home, "orders"), limits=FAST).action == "nothing"


def test_a_pod_whose_image_is_missing_is_unhealthy_once_the_time_to_start_is_over(
    write: Write, cluster: KubernetesApi
) -> None:
    home = write(health={"readiness_timeout_s": 0.01})
    deploy(Application(home, "orders"))
    set_state(cluster, "image")
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.UNHEALTHY, Reason.START_TIMEOUT)
    assert "ImagePullBackOff" in seen.text


def test_a_pod_that_ended_since_a_newer_driver_took_over_is_fenced_and_left_alone(
    write: Write, cluster: KubernetesApi
) -> None:
    home = write()
    deploy(Application(home, "orders"))
    status = json.loads((RECORDED / "pod-oom.json").read_text().replace('"exitCode": 137', '"exitCode": 3'))
    cluster.set_status("orders-driver", status)
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.FENCED, Reason.FENCED)
    assert seen.text.startswith("pod streams/orders-driver was fenced by a newer driver (exit code 3)")


def test_a_running_pod_that_does_not_answer_is_asked_at_its_address(write: Write, cluster: KubernetesApi) -> None:
    home = write()
    deploy(Application(home, "orders"))
    status = json.loads((RECORDED / "pod-running.json").read_text())
    cluster.set_status("orders-driver", {**status, "podIP": "127.0.0.1"})
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.STALLED, Reason.NO_ANSWER)
    assert "http://127.0.0.1:7070" in seen.text
    target = json.loads(home.scrape_target("orders").read_text())
    assert target[0]["targets"] == ["127.0.0.1:7070"]


def test_a_deleted_pod_is_a_dead_driver(write: Write, cluster: KubernetesApi) -> None:
    home = write()
    deploy(Application(home, "orders"))
    cluster.objects.clear()
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.text) == (
        Verdict.DEAD,
        "pod streams/orders-driver is not there any more: it was deleted or evicted",
    )


def test_a_cluster_that_does_not_answer_is_no_dead_driver(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write()
    deploy(Application(home, "orders"))
    server = os.environ["TEST_KUBERNETES_API"]
    monkeypatch.setenv("TEST_KUBERNETES_API", "http://127.0.0.1:9")
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.WAITING, Reason.CLUSTER_UNREACHABLE)
    assert "The connection to the server 127.0.0.1:9 was refused" in seen.text
    assert reconcile(Application(home, "orders")).action == "nothing"
    for operation in (stop, deploy):
        with pytest.raises(OperationError, match=r"lives cannot be found out: .*was refused"):
            operation(Application(home, "orders"))
    monkeypatch.setenv("TEST_KUBERNETES_API", server)


def test_a_driver_that_the_record_does_not_know_is_adopted(write: Write, cluster: KubernetesApi) -> None:
    """Case A04: the operation was killed between submitting and writing its record."""
    home = write()
    deploy(Application(home, "orders"))
    path = home.application("orders").record
    record = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in record.items() if key != "pod"}))
    known = read_record(home.application("orders"))
    assert known is not None
    assert known.driver is None
    assert deploy(Application(home, "orders")).action == "nothing"
    assert len(cluster.of_kind("Pod")) == 1


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        (
            "spark-submit",
            FAILS,
            "could not be submitted (exit code 1): Exception in thread",
        ),
        ("spark-submit", "", "spark-submit ended well, and there is no pod orders-driver"),
        (
            "kubectl",
            'import sys; sys.exit("Error from server (Forbidden): pods is forbidden")',
            "kubectl could not look for pod orders-driver: Error from server (Forbidden)",
        ),
    ],
)
def test_a_failed_submission_is_an_error_that_says_why(
    write: Write, tmp_path: Path, program: Callable[[str, str], Path], name: str, source: str, message: str
) -> None:
    home = write()
    (tmp_path / "kubectl" / name).unlink(missing_ok=True)
    program(name, source)
    with pytest.raises(OperationError) as raised:
        deploy(Application(home, "orders"))
    assert message in raised.value.message
    assert "org.apache" not in raised.value.message


@pytest.mark.parametrize("name", ["kubectl", "spark-submit"])
def test_a_missing_program_is_named(write: Write, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write()
    if name == "spark-submit":
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    else:
        monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(OperationError, match=f"{name} cannot be run: No such file"):
        deploy(Application(home, "orders"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"master": "spark://a:7077"}, "its master is 'spark://a:7077'"),
        ({"kubernetes": {}}, "has no image"),
        ({"command": ["sleep"]}, "does not take launcher.command"),
    ],
)
def test_a_specification_that_lacks_something_is_refused_before_anything_is_asked(
    write: Write, cluster: KubernetesApi, changes: dict[str, Any], message: str
) -> None:
    home = write(launcher=changes)
    with pytest.raises(ConfigurationError, match=message):
        deploy(Application(home, "orders"))
    assert cluster.objects == {}


def test_a_control_plane_that_cannot_be_reached_from_here_is_refused(write: Write) -> None:
    home = write(config={"bootstrap.servers": "localhost:1", "application.server": "127.0.0.1:0"})
    with pytest.raises(ConfigurationError, match=r"application\.server is '127\.0\.0\.1:0'"):
        deploy(Application(home, "orders"))


@pytest.mark.parametrize("operation", [create_savepoint, audit])
def test_what_needs_the_stores_on_this_host_is_refused(write: Write, operation: Callable[..., object]) -> None:
    home = write()
    with pytest.raises(MillraceError, match=r"its stores are in the executors' pods, and lost with each"):
        operation(Application(home, "orders"))


def test_claims_keep_the_stores_of_executors(write: Write) -> None:
    home = write(
        launcher={
            "kubernetes": {"image": "i", "namespace": "streams", "state_size": "20Gi", "storage_class": "fast"},
            "environment": {"PLACE": "back\\slash"},
        }
    )
    deploy(Application(home, "orders"))
    properties = home.application("orders").path / "submission.properties"
    assert properties.stat().st_mode & 0o777 == 0o600
    lines = properties.read_text().splitlines()
    claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.millrace-state"
    assert f"{claim}.options.claimName=OnDemand" in lines
    assert f"{claim}.options.storageClass=fast" in lines
    assert "spark.executorEnv.PLACE=back\\\\slash" in lines
    with pytest.raises(OperationError, match="in claims of the executors' pods, 20Gi each"):
        refuse_state_elsewhere(load_spec(home.spec_path("orders")), what="audit")


def test_the_manifests_are_what_kubernetes_takes(write: Write) -> None:
    file = load_spec_file(write().spec_path("orders"))
    for document in (*account(file.spec), specification_map(file), *pod_templates(file.spec)):
        kubernetes_validate.validate(document, "1.30", strict=True)


def test_stream_threads_reach_the_coordinator_at_a_port_of_the_driver_s_pod(write: Write) -> None:
    def ports(**config: Any) -> dict[str, int]:
        home = write(config={"bootstrap.servers": "localhost:1", "processing.engine": "stream-threads", **config})
        spec = load_spec(home.spec_path("orders"))
        driver, executor = pod_templates(spec)
        assert "ports" not in executor["spec"]["containers"][0]
        kubernetes_validate.validate(driver, "1.30", strict=True)
        found = {each["name"]: each["containerPort"] for each in driver["spec"]["containers"][0]["ports"]}
        # The port is the one that the driver listens on, which has the same specification.
        assert found.get("coordinator", 0) == spec.streams_config().coordinator_port or "processing.engine" in config
        return found

    assert ports() == {"control": 7070, "coordinator": 7071}
    assert ports(**{"coordinator.port": 9000}) == {"control": 7070, "coordinator": 9000}
    assert ports(**{"coordinator.port": 0}) == {"control": 7070}, "a free one, which nobody knows before"
    assert ports(**{"processing.engine": "micro-batches"}) == {"control": 7070}
    with pytest.raises(ConfigurationError, match=r"application.server and coordinator.port are both port 7070"):
        ports(**{"coordinator.port": 7070})


@pytest.mark.parametrize(
    ("application", "name"),
    [("orders", "orders"), ("Orders_v2", "orders-v2-d6ae3dbe"), ("___", "millrace-")],
)
def test_names_are_those_that_kubernetes_takes(application: str, name: str) -> None:
    assert base_name(application).startswith(name[:9])
    assert (base_name(application) == application) == (application == "orders")
