"""Drivers and executors as pods of Kubernetes, submitted by ``spark-submit`` in cluster mode."""

from millrace.install.launchers.kubernetes.launcher import KubernetesLauncher
from millrace.install.launchers.kubernetes.manifests import account, pod_templates, specification_map
from millrace.install.launchers.kubernetes.pod import DriverPod

__all__ = ["DriverPod", "KubernetesLauncher", "account", "pod_templates", "specification_map"]
