"""What Spark itself makes of our settings and templates: its spark-submit posts a driver to a server in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from millrace.ops import Home, Reason, deploy, observe, stop
from millrace.ops.driver import StopLimits
from tests.kubernetes_api import KubernetesApi, install_kubectl


def by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in items}


@pytest.mark.timeout(240)
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
        deploy(home, "orders")
        pod = api.pod("orders-driver")
        for each in api.objects.values():
            kubernetes_validate.validate(each, "1.30")
        properties = properties_of(api)
        seen = observe(home, "orders")
        stop(home, "orders", limits=StopLimits(graceful_s=0, terminate_s=1, kill_s=1))
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


def properties_of(api: KubernetesApi) -> dict[str, str]:
    """The settings that Spark gives the driver."""
    found = next(each for each in api.of_kind("ConfigMap") if "spark.properties" in each["data"])
    lines = found["data"]["spark.properties"].splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {key: value.replace("\\:", ":") for key, value in pairs}
