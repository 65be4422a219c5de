"""The section ``launcher`` of a specification: where the driver and the executors run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

CONTROL_TOKEN = "control.token"
"""Name of the file with the token of a driver's control plane."""
POD_TOKEN_DIRECTORY = "/etc/millrace/driver"
POD_STATE_DIRECTORY = "/var/lib/millrace/state"
_CONTROL_ADDRESS = "0.0.0.0:7070"
_COORDINATOR_PORT = "7071"


class Section(BaseModel):
    """A part of a specification; an unknown key is refused, with the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            for key in values:
                if key not in cls.model_fields:
                    nearest = difflib.get_close_matches(str(key), list(cls.model_fields), n=1, cutoff=0.0)[0]
                    raise ValueError(f"unknown key {key!r}; the nearest known one is {nearest!r}")
        return values


class KubernetesSettings(Section):
    """The settings of the launcher kubernetes."""

    image: str = Field(default="", description="Image of the driver and the executors, with Millrace in it.")
    namespace: str = Field(default="default", description="Namespace of everything.")
    context: str | None = Field(default=None, description="Context of kubectl's configuration, if not its current.")
    service_account: str = Field(default="millrace", description="Account of the driver, which starts the executors.")
    user: int = Field(default=1000, ge=0, description="Number of the user that runs it; volumes belong to it.")
    python: str = Field(default="python", description="Interpreter in the image that has Millrace's libraries.")
    application_file: str = Field(
        default="local:///opt/millrace/jobs/millrace/cli/submitted/driver.py",
        pattern=r"^local:///.+\.py$",
        description="Where millrace/cli/submitted/driver.py is in the image.",
    )
    secrets: list[str] = Field(
        default_factory=list,
        description="Secrets whose keys become environment variables in all pods.",
    )
    config_maps: list[str] = Field(default_factory=list, description="The same for ConfigMaps.")
    state_size: str | None = Field(
        default=None,
        pattern=r"^\d+(Ki|Mi|Gi|Ti)$",
        description="Size of the PersistentVolumeClaim that keeps an executor's stores, such as 20Gi. Without it they "
        "are lost with the pod, and are restored from the changelogs.",
    )
    storage_class: str | None = Field(default=None, description="Storage class of the claims, if not the cluster's.")


class YarnSettings(Section):
    """The settings of the launcher yarn."""

    queue: str = Field(default="default", description="Queue of the application.")
    python: str = Field(
        default="./environment/bin/python", description="Interpreter on the nodes that has Millrace's libraries."
    )
    archive: str | None = Field(
        default=None,
        description="Packed environment (URL or path) that is unpacked as `environment` in each container; none where "
        "the nodes have one already.",
    )


class LauncherSettings(Section):
    """The settings of the launcher: where the driver and the executors run."""

    kind: str = Field(default="local", description="Name of the launcher: local, standalone, kubernetes or yarn.")
    parallelism: int = Field(default=2, ge=1, description="Cores of a local master.")
    task_attempts: int = Field(default=4, ge=1, description="Attempts of a Spark task, the first included.")
    master: str | None = Field(
        default=None, description="URL of the Spark master: spark://host:7077 or k8s://https://host:6443."
    )
    driver_memory: str = Field(default="2g", pattern=r"^\d+[kmgt]$", description="Heap of the driver's JVM.")
    executor_memory: str = Field(default="1g", pattern=r"^\d+[kmgt]$", description="Heap of an executor's JVM.")
    executor_cores: int = Field(default=1, ge=1, description="Cores of one executor.")
    executors: int = Field(default=2, ge=1, description="Number of executors.")
    environment: dict[str, str] = Field(default_factory=dict, description="Environment variables of the driver.")
    command: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Command instead of `millrace run`, for wrappers such as numactl: {python}, {spec} and "
        "{run_directory} are filled in.",
    )

    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings)
    yarn: YarnSettings = Field(default_factory=YarnSettings)

    def streams_settings(self) -> dict[str, str]:
        """Returns the settings of the driver that follow from the launcher: the master URL, the sizes, and places."""
        if self.kind == "local":
            # local[N] would give up at the first failed task.
            return {
                "master": self.master or f"local[{self.parallelism},{self.task_attempts}]",
                "spark.driver.memory": self.driver_memory,
            }
        settings = {
            **({"master": self.master} if self.master else {}),
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": str(self.executor_cores),
            "spark.task.maxFailures": str(self.task_attempts),
        }
        if self.kind not in {"kubernetes", "yarn"}:
            return {**settings, "spark.cores.max": str(self.executor_cores * self.executors)}
        settings |= {"spark.executor.instances": str(self.executors), "application.server": _CONTROL_ADDRESS}
        if self.kind == "yarn":
            # Files of a submission lie in the container's working directory.
            return {**settings, "master": "yarn", "control.token.file": CONTROL_TOKEN}
        return {
            **settings,
            "control.token.file": f"{POD_TOKEN_DIRECTORY}/{CONTROL_TOKEN}",
            "state.dir": POD_STATE_DIRECTORY,
            # A pod has its ports to itself, and policies of the network name them.
            "coordinator.port": _COORDINATOR_PORT,
        }
