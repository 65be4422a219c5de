"""The desired state of an application: ``config/apps/<name>.yaml``."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from millrace.config import StreamsConfig
from millrace.errors import ConfigurationError, MillraceError
from millrace.files import write_atomically
from millrace.install.launcher_settings import LauncherSettings, Section
from millrace.install.references import interpolate, refuse_written_secrets
from millrace.install.spec_document import read_document

APPLICATION_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


class RunState(StrEnum):
    """The desired state in a specification: whether the application should run."""

    RUNNING = "running"
    SUSPENDED = "suspended"


class UpgradeMode(StrEnum):
    """The upgrade mode: what a changed specification does with the state of the running application."""

    LAST_STATE = "last-state"
    """The new one goes on with the stores as they are; its topology must fit them."""
    SAVEPOINT = "savepoint"
    """As last-state, and a savepoint is taken and read back first: a rollback restores it where it has to."""
    STATELESS = "stateless"
    """Stores, changelogs and internal topics are deleted, and the new one begins with empty stores where the committed
    offsets of the input topics are: no input is processed twice and none is left out, but aggregates and joins know
    nothing of what came before. To compute them again from the first record, reset the application instead."""


class TopicDeclaration(Section):
    """A topic that is created when the application is deployed, if it is missing."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="Name of the topic.")
    partitions: int = Field(default=1, ge=1, description="Number of partitions.")
    replication_factor: int = Field(default=-1, description="Replication factor; -1 takes the broker's default.")
    settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Topic settings, for example retention.ms."
    )

    @model_validator(mode="after")
    def _no_reserved_name(self) -> TopicDeclaration:
        if self.name in (".", ".."):
            raise ValueError(f"a topic cannot be called {self.name!r}")
        return self

    def settings_text(self) -> dict[str, str]:
        """Returns the settings as Kafka's admin protocol takes them: text, booleans in lower case."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.settings.items()
        }


class RestartSettings(Section):
    """The settings of restarts: how often and how fast a failed or unhealthy job is started again."""

    max_attempts: int = Field(default=10, ge=0, description="Restarts in a row before giving up.")
    initial_backoff_s: float = Field(
        default=1.0, ge=0, description="Least time between the first two launches; doubles."
    )
    max_backoff_s: float = Field(default=60.0, ge=0, description="Longest backoff.")
    reset_after_s: float = Field(default=600.0, ge=0, description="A job that ran for so long starts counting again.")

    def backoff_s(self, restarts: int) -> float:
        """Returns the least seconds between the last launch and the next one, after ``restarts`` restarts in a row."""
        # Above 2^30 the limit has long been reached.
        return min(self.max_backoff_s, self.initial_backoff_s * 2.0 ** min(restarts, 30))


class HealthSettings(Section):
    """The limits from which on a job that is alive counts as unhealthy."""

    readiness_timeout_s: float = Field(default=600.0, gt=0, description="Longest time from launch to ready.")
    no_answer_timeout_s: float = Field(
        default=30.0, gt=0, description="Longest time without an answer from /health/live."
    )
    no_progress_timeout_s: float = Field(
        default=120.0, gt=0, description="Longest time without progress while there is lag."
    )
    poll_interval_s: float = Field(default=2.0, gt=0, description="Time between two probes.")
    recovery_objective_s: float | None = Field(
        default=None,
        gt=0,
        description="Longest recovery that is accepted; an alert tells when the estimate comes near. None without it.",
    )
    stop_timeout_s: float = Field(default=60.0, gt=0, description="How long a graceful stop may take.")


class SavepointSettings(Section):
    """The settings of savepoints: where they are, and which are taken and kept automatically."""

    directory: str | None = Field(
        default=None,
        description="URL or path, as fsspec takes it; by default `savepoints` of the installation.",
    )
    interval_s: float | None = Field(
        default=None, gt=0, description="Longest time between two savepoints; none are taken by themselves without it."
    )
    keep_count: int = Field(default=10, ge=1, description="How many complete ones are kept at most.")
    keep_s: float | None = Field(default=None, gt=0, description="How long they are kept; none is too old without it.")


class PreflightSettings(Section):
    """The settings of the checks before a start."""

    enabled: bool = Field(default=True, description="Whether anything is checked; off only where no broker is used.")
    least_free_disk_mb: int = Field(default=512, ge=0, description="Free space that the state directory needs, MiB.")


class ApplicationSpec(Section):
    """Desired state of one application."""

    name: str = Field(pattern=f"^{APPLICATION_NAME.pattern}$", description="Name of the application and of its files.")
    module: str = Field(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="Function that takes a StreamsBuilder, and the configuration if it asks for it: "
        "package.module:function.",
    )
    description: str = Field(default="", description="What it does, for people.")
    config: dict[str, Any] = Field(default_factory=dict, description="Settings with dotted keys, see StreamsConfig.")
    production: bool = Field(
        default=True, description="Whether real work depends on it; recovery drills take only applications where not."
    )
    topics: list[TopicDeclaration] = Field(default_factory=list, description="Topics to create when deployed.")
    state: RunState = Field(default=RunState.RUNNING, description="running or suspended.")
    upgrade_mode: UpgradeMode = Field(
        default=UpgradeMode.LAST_STATE,
        description="What a changed specification does with the state: last-state goes on with it; savepoint takes one "
        "first, for a rollback; stateless begins with empty stores at the committed offsets of the inputs.",
    )
    rollback_on_failure: bool = Field(
        default=False,
        description="Whether the last good specification is launched again when this one is not healthy within "
        "health.readiness_timeout_s.",
    )
    launcher: LauncherSettings = Field(default_factory=LauncherSettings)
    restart: RestartSettings = Field(default_factory=RestartSettings)
    health: HealthSettings = Field(default_factory=HealthSettings)
    preflight: PreflightSettings = Field(default_factory=PreflightSettings)
    savepoints: SavepointSettings = Field(default_factory=SavepointSettings)

    @model_validator(mode="after")
    def _configuration_is_valid(self) -> ApplicationSpec:
        try:
            self.streams_config()
        except MillraceError as error:
            raise ValueError(error.message) from error
        return self

    def streams_config(self) -> StreamsConfig:
        """Returns the checked configuration: ``config``, completed by the application's name and the launcher's
        settings.
        """
        return StreamsConfig.from_mapping(self.streams_mapping())

    def streams_mapping(self) -> dict[str, Any]:
        """Returns the settings of :meth:`streams_config`, with dotted keys and secrets filled in."""
        return {"application.id": self.name, **self.launcher.streams_settings(), **self.config}


class SpecFile(BaseModel):
    """A specification together with the text that it was read from.

    Args:
        spec: the checked specification, environment variables filled in.
        raw: the document as written, variables not filled in: it holds no secrets and is what is compared and kept.
    """

    model_config = ConfigDict(frozen=True)

    spec: ApplicationSpec
    raw: dict[str, Any]

    @property
    def hash(self) -> str:
        """Equal for documents that say the same, whatever the order of their keys and their comments."""
        return hashlib.sha256(orjson.dumps(self.raw, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Writes the document as it was read, atomically."""
        write_atomically(path, yaml.safe_dump(self.raw, sort_keys=False).encode())


def load_spec_file(path: Path, *, name: str | None = None, environment: Mapping[str, str] | None = None) -> SpecFile:
    """Reads and checks one specification.

    Args:
        path: the YAML file.
        name: the application that it must describe; none takes what it says.
        environment: where ``${NAME}`` is looked up; the process's own by default.

    Raises:
        ConfigurationError: the file is missing, cannot be read, is no YAML, says something unknown or wrong, or
            describes another application; the message names the file and the key, and for an unknown key the nearest
            known one.
    """
    file = spec_file_of(read_document(path), where=str(path), environment=environment)
    if name is not None and file.spec.name != name:
        raise misnamed(path, file.spec.name)
    return file


def misnamed(path: Path, name: str) -> ConfigurationError:
    """Returns the refusal of a specification whose ``name`` is not its file's."""
    return ConfigurationError(
        f"{path} describes {name!r}, and a specification has the name of its file.",
        remedy=f"call the file {name}.yaml, or write `name: {path.stem}`",
    )


def spec_file_of(raw: dict[str, Any], *, where: str, environment: Mapping[str, str] | None = None) -> SpecFile:
    """Checks a document.

    Args:
        raw: the document, variables not filled in.
        where: what to call it in an error.
        environment: where ``${NAME}`` is looked up; the process's own by default.

    Raises:
        ConfigurationError: it says something unknown or wrong, or has a secret written out.
    """
    try:
        refuse_written_secrets(raw)
        spec = ApplicationSpec.model_validate(interpolate(raw, os.environ if environment is None else environment))
    except ValidationError as error:
        raise ConfigurationError(f"{where} is not valid: {_problems(error)}.", remedy="correct the key") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{where} is not valid: {error.message}", remedy=error.remedy) from error
    return SpecFile(spec=spec, raw=raw)


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'the document'}: "
        f"{problem['msg'].removeprefix('Value error, ').rstrip('.')}"
        for problem in error.errors()
    )


def load_spec(path: Path, *, name: str | None = None, environment: Mapping[str, str] | None = None) -> ApplicationSpec:
    """Returns the checked specification in ``path``; see :func:`load_spec_file`."""
    return load_spec_file(path, name=name, environment=environment).spec


def load_named_spec(path: Path, *, environment: Mapping[str, str] | None = None) -> SpecFile:
    """Returns the specification in a file that people wrote, which is called as the application is.

    See :func:`load_spec_file`.

    Raises:
        ConfigurationError: as :func:`load_spec_file`; or the file's name is none of an application.
    """
    if not APPLICATION_NAME.fullmatch(path.stem):
        raise ConfigurationError(
            f"{_printable(str(path))} has no name of an application: letters, digits, '.', '_' and '-', up to 200.",
            remedy="call the file as the application is called",
        )
    return load_spec_file(path, name=path.stem, environment=environment)


def load_specs(directory: Path) -> dict[str, SpecFile | ConfigurationError]:
    """Returns all specifications in a directory, by the files' names without ``.yaml``.

    An invalid one is represented by its error.

    One invalid file must not hide the others, so nothing is raised for it. Hidden files are left out: editors keep
    theirs there.

    Raises:
        ConfigurationError: the directory is there and cannot be listed.
    """
    found: dict[str, SpecFile | ConfigurationError] = {}
    try:
        paths = sorted(directory.iterdir()) if directory.exists() else []
    except OSError as error:
        raise ConfigurationError(
            f"The directory of the specifications, {directory}, cannot be listed: {error.strerror or error}.",
            remedy="correct its permissions, or set MILLRACE_CONFIG_DIR to another directory",
        ) from error
    for path in paths:
        if path.suffix != ".yaml" or path.name.startswith("."):
            continue
        try:
            found[path.stem] = load_named_spec(path)
        except ConfigurationError as error:
            found[_printable(path.stem)] = error
    return found


def _printable(text: str) -> str:
    """Names of files may have bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()
