"""The Kubernetes manifests of an application: rendered from its specification, and applied by a launch."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from millrace.config import ProcessingEngine
from millrace.install.launcher_settings import CONTROL_TOKEN, POD_STATE_DIRECTORY, POD_TOKEN_DIRECTORY
from millrace.install.launchers.submission import control_port
from millrace.install.spec import ApplicationSpec, SpecFile

SPEC_DIRECTORY = "/etc/millrace/spec"
SPEC_KEY = "spec.yaml"
CONTAINER = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
"""Names of the containers, as Spark gives them where no template does."""
_LONGEST_NAME = 40
_NAME = re.compile(r"[^a-z0-9-]+")


def base_name(application: str) -> str:
    """Returns the application's name as Kubernetes takes it; a digest keeps names apart that would become the same."""
    name = _NAME.sub("-", application.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    if name == application:
        return name
    digest = hashlib.sha256(application.encode()).hexdigest()[:8]
    return f"{name}-{digest}" if name else f"millrace-{digest}"


def driver_pod_name(application: str) -> str:
    """Returns the name of the driver's pod. There is one for an application: the cluster refuses a second driver."""
    return f"{base_name(application)}-driver"


def token_secret(spec: ApplicationSpec, token: str) -> Mapping[str, Any]:
    """Returns the Secret with the token of the control plane; it is applied by a launch and printed nowhere."""
    data = {CONTROL_TOKEN: base64.b64encode(token.encode()).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(spec, f"{base_name(spec.name)}-control"),
        "type": "Opaque",
        "data": data,
    }


def specification_map(file: SpecFile) -> Mapping[str, Any]:
    """Returns the ConfigMap with the specification, as it is written: variables are filled in by the driver."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(file.spec, f"{base_name(file.spec.name)}-spec"),
        "data": {SPEC_KEY: yaml.safe_dump(file.raw, sort_keys=False)},
    }


def pod_templates(spec: ApplicationSpec) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the templates of the driver's and the executors' pods, which Spark completes.

    Raises:
        ConfigurationError: the control plane could not be reached.
    """
    return _driver(spec), _executor(spec)


def _metadata(spec: ApplicationSpec, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": spec.launcher.kubernetes.namespace, "labels": _labels(spec)}


def _labels(spec: ApplicationSpec) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "millrace", "app.kubernetes.io/instance": base_name(spec.name)}


def account(spec: ApplicationSpec) -> Sequence[Mapping[str, Any]]:
    """Returns the driver's account and its permissions, which an administrator applies once for a namespace."""
    settings = spec.launcher.kubernetes
    metadata = {
        "name": settings.service_account,
        "namespace": settings.namespace,
        "labels": {"app.kubernetes.io/managed-by": "millrace"},
    }
    group = "rbac.authorization.k8s.io"
    rule = {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
        "verbs": ["create", "get", "list", "watch", "patch", "update", "delete", "deletecollection"],
    }
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [{"kind": "ServiceAccount", "name": settings.service_account, "namespace": settings.namespace}],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": settings.service_account},
        },
    )


def _driver(spec: ApplicationSpec) -> Mapping[str, Any]:
    port = control_port(spec)
    name = base_name(spec.name)
    mounts = [
        {"name": "millrace-spec", "mountPath": SPEC_DIRECTORY, "readOnly": True},
        {"name": "millrace-control", "mountPath": POD_TOKEN_DIRECTORY, "readOnly": True},
        {"name": "millrace-state", "mountPath": POD_STATE_DIRECTORY},
    ]
    volumes = [
        {"name": "millrace-spec", "configMap": {"name": f"{name}-spec"}},
        {"name": "millrace-control", "secret": {"secretName": f"{name}-control", "defaultMode": 0o440}},
        # The driver keeps no stores, only locks and scratch files.
        {"name": "millrace-state", "emptyDir": {}},
    ]
    container = {
        **_container(spec, "driver"),
        "ports": [{"name": "control", "containerPort": port}, *_coordinator_port(spec)],
        "readinessProbe": {"httpGet": {"path": "/health/ready", "port": port}, "periodSeconds": 5},
        "volumeMounts": mounts,
    }
    return _pod(spec, container, volumes, grace_s=round(spec.health.stop_timeout_s))


def _coordinator_port(spec: ApplicationSpec) -> Sequence[Mapping[str, Any]]:
    """The port of the driver at which stream threads, in the executors' pods, connect to their coordinator.

    They find the driver by the name of Spark's service for it, which has no address of its own, so all ports are those
    of the pod. What they show there comes to them with their Spark task.
    """
    config = spec.streams_config()
    if config.processing_engine is not ProcessingEngine.STREAM_THREADS or not config.coordinator_port:
        return ()
    return ({"name": "coordinator", "containerPort": config.coordinator_port},)


def _executor(spec: ApplicationSpec) -> Mapping[str, Any]:
    container = _container(spec, "executor")
    if spec.launcher.kubernetes.state_size is not None:
        # The claims are Spark's: one for each executor, see KubernetesLauncher.
        return _pod(spec, container, [])
    mount = {"name": "millrace-state", "mountPath": POD_STATE_DIRECTORY}
    return _pod(spec, {**container, "volumeMounts": [mount]}, [{"name": "millrace-state", "emptyDir": {}}])


def _container(spec: ApplicationSpec, role: str) -> dict[str, Any]:
    settings = spec.launcher.kubernetes
    sources: list[Mapping[str, Any]] = [{"secretRef": {"name": each}} for each in settings.secrets]
    sources += [{"configMapRef": {"name": each}} for each in settings.config_maps]
    return {
        "name": CONTAINER[role],
        "image": settings.image,
        # Spark's own images have a script for it, which knows nothing of pyspark's installation.
        "command": [settings.python, "-m", "millrace.cli.submitted.pod"],
        **({"envFrom": sources} if sources else {}),
    }


def _pod(
    spec: ApplicationSpec, container: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]], *, grace_s: int = 30
) -> Mapping[str, Any]:
    user = spec.launcher.kubernetes.user
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": _labels(spec)},
        "spec": {
            "securityContext": {"runAsUser": user, "fsGroup": user},
            "terminationGracePeriodSeconds": grace_s,
            "containers": [container],
            **({"volumes": list(volumes)} if volumes else {}),
        },
    }
