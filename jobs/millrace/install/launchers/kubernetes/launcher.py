"""Submits an application to Kubernetes, and finds what it submitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from millrace.driver.control_file import read_token
from millrace.errors import ConfigurationError, OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launcher_settings import POD_STATE_DIRECTORY
from millrace.install.launchers.base import Launch
from millrace.install.launchers.instance import DriverInstance
from millrace.install.launchers.kubernetes.kubectl import Kubectl
from millrace.install.launchers.kubernetes.manifests import (
    CONTAINER,
    SPEC_DIRECTORY,
    SPEC_KEY,
    base_name,
    driver_pod_name,
    pod_templates,
    specification_map,
    token_secret,
)
from millrace.install.launchers.kubernetes.pod import DriverPod
from millrace.install.launchers.submission import (
    control_port,
    control_token,
    driver_settings,
    properties_file,
    refuse_command,
    refuse_second,
    spark_submit,
    submit,
)
from millrace.install.spec import ApplicationSpec, load_spec, load_spec_file
from millrace.kafka.java_clients import properties_text

_RUN_DIRECTORY = "/tmp/millrace"
_CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.millrace-state"


class KubernetesLauncher:
    """Runs the driver in a pod, which starts the executors' pods."""

    kind = "kubernetes"

    def state_elsewhere(self, spec: ApplicationSpec) -> str:
        """Returns the place of stores: claims of the executors, or their pods."""
        size = spec.launcher.kubernetes.state_size
        if size is None:
            return "in the executors' pods, and lost with each (launcher.kubernetes.state_size keeps them)"
        return f"in claims of the executors' pods, {size} each"

    def plan(self, spec: ApplicationSpec, directory: ApplicationDirectory) -> Launch:
        """Returns the command of spark-submit.

        Raises:
            ConfigurationError: the master is not of Kubernetes, there is no image, or the control plane could not be
                reached.
        """
        settings, master = spec.launcher.kubernetes, spec.launcher.master or ""
        if not master.startswith("k8s://"):
            raise ConfigurationError(
                f"The launcher of {spec.name} is kubernetes and its master is {master!r}.",
                remedy="set launcher.master to the API server's URL, k8s://https://host:6443",
            )
        if not settings.image:
            raise ConfigurationError(
                f"The launcher of {spec.name} is kubernetes and has no image.", remedy="set launcher.kubernetes.image"
            )
        refuse_command(spec)
        driver, executor = pod_templates(spec)
        spark = {**driver_settings(spec), **_kubernetes_settings(spec, directory)}
        return Launch(
            command=(
                spark_submit(), "--master", master, "--deploy-mode", "cluster", "--name", spec.name,
                "--properties-file", str(properties_file(directory)),
                settings.application_file, "run", f"{SPEC_DIRECTORY}/{SPEC_KEY}", "--run-directory", _RUN_DIRECTORY,
            ),
            log=directory.log,
            files={
                properties_file(directory): properties_text(spark),
                _template(directory, "driver"): yaml.safe_dump(driver, sort_keys=False),
                _template(directory, "executor"): yaml.safe_dump(executor, sort_keys=False),
            },
        )  # fmt: skip

    def start(self, launch: Launch, directory: ApplicationDirectory) -> DriverInstance:
        """Applies the manifests, submits, and finds the pod.

        Raises:
            OperationError: the cluster refuses or does not answer, there is a driver already, or spark-submit failed.
        """
        file = load_spec_file(directory.spec)
        refuse_second(self.find(directory), directory)
        token = read_token(control_token(directory))
        _kubectl(file.spec).apply([specification_map(file), token_secret(file.spec, token)])
        submit(launch, directory)
        started = self.find(directory)
        if started is None:
            raise OperationError(
                f"spark-submit ended well, and there is no pod {driver_pod_name(directory.application)}.",
                remedy=f"read {launch.log}, and see `kubectl get events`",
            )
        return started

    def find(self, directory: ApplicationDirectory) -> DriverInstance | None:
        """Returns the pod that has the name of the application's driver.

        Raises:
            OperationError: the cluster does not answer.
        """
        spec = load_spec(directory.spec)
        settings, name = spec.launcher.kubernetes, driver_pod_name(directory.application)
        found = _kubectl(spec).pod(name)
        if found is None:
            return None
        return DriverPod(
            pod=name,
            uid=found["metadata"]["uid"],
            namespace=settings.namespace,
            context=settings.context or "",
            port=control_port(spec),
        )

    def instance_of(self, values: Mapping[str, Any]) -> DriverInstance | None:
        """Returns the pod in a record."""
        return DriverPod.from_mapping(values) if "pod" in values else None


def _kubectl(spec: ApplicationSpec) -> Kubectl:
    settings = spec.launcher.kubernetes
    return Kubectl(namespace=settings.namespace, context=settings.context or "")


def _template(directory: ApplicationDirectory, role: str) -> Path:
    return directory.path / f"{role}-pod.yaml"


def _kubernetes_settings(spec: ApplicationSpec, directory: ApplicationDirectory) -> dict[str, str]:
    settings = spec.launcher.kubernetes
    found = {
        "spark.kubernetes.namespace": settings.namespace,
        "spark.kubernetes.container.image": settings.image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": settings.service_account,
        "spark.kubernetes.driver.pod.name": driver_pod_name(spec.name),
        "spark.kubernetes.executor.podNamePrefix": base_name(spec.name),
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.pyspark.python": settings.python,
    }
    if settings.context:
        found["spark.kubernetes.context"] = settings.context
    for role, container in CONTAINER.items():
        found[f"spark.kubernetes.{role}.podTemplateFile"] = str(_template(directory, role))
        found[f"spark.kubernetes.{role}.podTemplateContainerName"] = container
    for name, value in spec.launcher.environment.items():
        found |= {f"spark.kubernetes.driverEnv.{name}": value, f"spark.executorEnv.{name}": value}
    if settings.state_size is not None:
        # One claim for each executor; the executor that replaces a lost one gets its claim.
        found |= {
            f"{_CLAIM}.options.claimName": "OnDemand",
            f"{_CLAIM}.options.sizeLimit": settings.state_size,
            f"{_CLAIM}.mount.path": POD_STATE_DIRECTORY,
            f"{_CLAIM}.mount.readOnly": "false",
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "true",
            "spark.kubernetes.driver.reusePersistentVolumeClaim": "true",
        }
        if settings.storage_class:
            found[f"{_CLAIM}.options.storageClass"] = settings.storage_class
    return found
