"""What Spark itself makes of our settings and templates: its spark-submit posts a driver to a server in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64decode
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import kubernetes_validate
import pytest
import yaml

from millrace.embedded.broker import free_ports
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.launch import Reason, observe
from millrace.launch.driver import StopLimits
from millrace.operations import stop
from millrace.supervise import deploy
from tests.airflow.orders import SECRET, SECRET_VARIABLE, Orders, specification
from tests.airflow.topologies import PARCEL_TOTALS, PARCELS
from tests.application import ROOT, SEARCH_PATH, wait_until
from tests.kubernetes_api import KubernetesApi, install_kubectl
from tests.records import read_topic, values_by_key

OF_THE_CLUSTER = ("spark.kubernetes.", "spark.driver.host", "spark.driver.port", "spark.driver.blockManager.port")


def by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in items}


def test_spark_submits_the_driver_that_the_specification_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir()
    with KubernetesApi() as api:
        for name, value in install_kubectl(tmp_path / "bin", api.url).items():
            monkeypatch.setenv(name, value)
        document = {
            "name": "orders",
            "module": "apps.nothing:build",
            "config": {"bootstrap.servers": "kafka:9092", "spark.kubernetes.driver.limit.cores": "2"},
            "preflight": {"enabled": False},
            "launcher": {
                "kind": "kubernetes",
                "master": f"k8s://{api.url}",
                "driver_memory": "1g",
                "executors": 3,
                "environment": {"WORD": 'a back\\slash = "x"'},
                "kubernetes": {
                    "image": "registry/millrace:1",
                    "namespace": "streams",
                    "service_account": "streaming",
                    "secrets": ["kafka"],
                    "config_maps": ["places"],
                    "state_size": "5Gi",
                },
            },
        }
        home.spec_path("orders").write_text(yaml.safe_dump(document))
        deploy(Application(home, "orders"))
        pod = api.pod("orders-driver")
        for each in api.objects.values():
            kubernetes_validate.validate(each, "1.30")
        properties = properties_of(api)
        seen = observe(Application(home, "orders"))
        stop(Application(home, "orders"), limits=StopLimits(graceful_s=0, terminate_s=1, kill_s=1))
        assert api.of_kind("Pod") == []

    assert (seen.reason, seen.text) == (Reason.STARTING, "pod streams/orders-driver is Pending")
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["python", "-m", "millrace.cli.submitted.pod"]
    assert container["args"][:3] == ["driver", "--properties-file", "/opt/spark/conf/spark.properties"]
    assert container["args"][-4:] == ["run", "/etc/millrace/spec/spec.yaml", "--run-directory", "/tmp/millrace"]
    assert container["image"] == "registry/millrace:1"
    assert container["envFrom"] == [{"secretRef": {"name": "kafka"}}, {"configMapRef": {"name": "places"}}]
    assert by_name(container["env"])["WORD"]["value"] == 'a back\\slash = "x"'
    assert container["resources"]["limits"]["cpu"] == "2"
    assert by_name(container["ports"])["control"]["containerPort"] == 7070
    mounts = by_name(container["volumeMounts"])
    assert mounts["millrace-spec"]["mountPath"] == "/etc/millrace/spec"
    volumes = by_name(pod["spec"]["volumes"])
    assert volumes["millrace-control"]["secret"]["secretName"] == "orders-control"
    assert pod["spec"]["serviceAccountName"] == "streaming"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders"
    assert properties["spark.executor.instances"] == "3"
    assert properties["spark.driver.host"].endswith(".streams.svc")
    claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.millrace-state"
    assert properties[f"{claim}.options.claimName"] == "OnDemand"
    assert properties[f"{claim}.mount.path"] == "/var/lib/millrace/state"
    template = next(each for each in api.of_kind("ConfigMap") if "podspec-configmap-key" in each["data"])
    executor = yaml.safe_load(template["data"]["podspec-configmap-key"])
    assert executor["spec"]["containers"][0]["name"] == "spark-kubernetes-executor"


def test_the_driver_s_container_processes_records_and_stops_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bootstrap_servers: str
) -> None:
    """The container's own command, files and environment, on this host: Spark's local master is the cluster."""
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir()
    name = f"parcels-{uuid4().hex[:8]}"
    orders = Orders(home, bootstrap_servers, name, "parcels", topic=PARCELS, output=PARCEL_TOTALS)
    orders.create_topics()
    (control,) = free_ports(1)
    with KubernetesApi() as api:
        for variable, value in install_kubectl(tmp_path / "bin", api.url).items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv(SECRET_VARIABLE, SECRET)
        document = specification(home, bootstrap_servers, orders.name, orders.function)
        document["config"] |= {
            "application.server": f"0.0.0.0:{control}",
            "control.token.file": str(tmp_path / "control" / "control.token"),
        }
        document["launcher"] = {
            "kind": "kubernetes",
            "master": f"k8s://{api.url}",
            "driver_memory": "512m",
            "environment": {"PYTHONPATH": SEARCH_PATH},
            "kubernetes": {"image": "registry/millrace:1", "namespace": "streams"},
        }
        home.spec_path(orders.name).write_text(yaml.safe_dump({**document, "preflight": {"enabled": False}}))
        deploy(Application(home, orders.name))
        (container,) = api.pod(f"{orders.name}-driver")["spec"]["containers"]
        specification_file = by_key(api, "ConfigMap", "spec.yaml")
        token = b64decode(by_key(api, "Secret", "control.token"))
        properties = properties_of(api)
        stop(Application(home, orders.name), limits=StopLimits(graceful_s=0, terminate_s=1, kill_s=1))

    places = {
        "/opt/millrace/jobs": str(ROOT / "jobs"),
        "/opt/spark/conf": str(tmp_path / "conf"),
        "/etc/millrace/spec": str(tmp_path / "spec"),
        "/tmp/millrace": str(tmp_path / "run"),
    }
    for directory in ("conf", "spec", "control", "run"):
        (tmp_path / directory).mkdir()
    (tmp_path / "spec" / "spec.yaml").write_text(specification_file)
    (tmp_path / "control" / "control.token").write_bytes(token)
    # What belongs to the cluster: its master, and the names and ports that it gives the pod.
    properties = {key: value for key, value in properties.items() if not key.startswith(OF_THE_CLUSTER)}
    properties |= {"spark.master": "local[1,4]", "spark.driver.host": "127.0.0.1"}
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    assert SECRET not in lines, "everybody may read ConfigMaps"
    (tmp_path / "conf" / "spark.properties").write_text(lines)
    environment = {
        **os.environ,
        **{each["name"]: each["value"] for each in container["env"] if "value" in each},
        "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "scratch"),
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [
        reduce(lambda text, place: text.replace(*place), places.items(), part)
        for part in (*container["command"], *container["args"])
    ]
    log = tmp_path / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=tmp_path)
    try:
        orders.send(20)
        wait_until(
            lambda: counts(orders) == {b"customer-%d" % number: 4 for number in range(5)},
            timeout_s=150,
            what=f"the counts; {log}",
        )
        url = f"http://127.0.0.1:{control}"
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert httpx.post(f"{url}/stop").status_code == 401
        authorization = {"authorization": f"Bearer {token.decode().strip()}"}
        assert httpx.post(f"{url}/stop", headers=authorization).status_code == 202
        assert driver.wait(60) == 0, log.read_text()
    finally:
        driver.kill()
        driver.wait()


def counts(orders: Orders) -> dict[bytes | None, int]:
    """The last count of each key."""
    found = values_by_key(read_topic(orders.bootstrap_servers, orders.output))
    return {key: int.from_bytes(values[-1] or b"", "big") for key, values in found.items()}


def by_key(api: KubernetesApi, kind: str, key: str) -> str:
    """The file of a ConfigMap or a Secret."""
    (found,) = [str(each["data"][key]) for each in api.of_kind(kind) if key in each.get("data", {})]
    return found


def properties_of(api: KubernetesApi) -> dict[str, str]:
    """The settings that Spark gives the driver."""
    found = next(each for each in api.of_kind("ConfigMap") if "spark.properties" in each["data"])
    lines = found["data"]["spark.properties"].splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {key: value.replace("\\:", ":") for key, value in pairs}
