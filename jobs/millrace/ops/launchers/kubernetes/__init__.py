"""Drivers and executors as pods of Kubernetes, submitted by ``spark-submit`` in cluster mode."""

from millrace.ops.launchers.kubernetes.launcher import KubernetesLauncher
from millrace.ops.launchers.kubernetes.manifests import account, pod_templates, specification_map
from millrace.ops.launchers.kubernetes.pod import DriverPod

__all__ = ["DriverPod", "KubernetesLauncher", "account", "pod_templates", "specification_map"]
