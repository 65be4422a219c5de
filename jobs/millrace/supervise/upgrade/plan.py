"""What an upgrade decides before it changes anything."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.install.application import Application
from millrace.install.record import JobRecord
from millrace.install.spec import SpecFile, UpgradeMode, spec_file_of
from millrace.operations import OperationPlan
from millrace.supervise.readiness import last_good

UPGRADE = "upgrade"
ROLLBACK = "rollback"


class Document(BaseModel):
    """A specification as it was written; variables are filled in when it is used, so that no journal has secrets."""

    model_config = ConfigDict(frozen=True)

    hash: str
    raw: dict[str, Any]

    @classmethod
    def of(cls, file: SpecFile) -> Document:
        """The document of a specification."""
        return cls(hash=file.hash, raw=file.raw)

    def file(self) -> SpecFile:
        """The checked specification.

        Raises:
            ConfigurationError: it is not valid here and now.
        """
        return spec_file_of(self.raw, where=f"specification {self.hash}")


class SavepointDecisions(BaseModel):
    """The savepoint that is taken first: the decisions of :func:`millrace.operations.savepoints.create_savepoint`."""

    model_config = ConfigDict(frozen=True)

    name: str
    repository: str
    running: bool
    timeout_s: float
    created_at: float


class UpgradePlan(BaseModel):
    """All that an upgrade, or a rollback that was asked for, has decided.

    Args:
        mode: what happens to the state on the way to ``new``.
        new: the specification that is launched; of a rollback the one that is left.
        back: the one that is launched where ``new`` is not healthy in time; none where there is no way back.
        savepoint: of an upgrade: the one that it takes.
        restores: of a rollback: name of the savepoint that is restored where the topology of ``back`` does not fit the
            state any more.
        rejects: hash of the specification that supervision leaves alone after the rollback.
        owner: ``run_id/try_number`` of the task that supervises it; empty leaves the owner as it is.
        ready_timeout_s: longest time from the launch until it is healthy, seconds.
    """

    model_config = ConfigDict(frozen=True)

    mode: UpgradeMode
    new: Document
    back: Document | None
    savepoint: SavepointDecisions | None = None
    restores: str = ""
    rejects: str = ""
    owner: str = ""
    ready_timeout_s: float

    @property
    def discards_state(self) -> bool:
        """Whether the state need not fit what is launched."""
        return self.mode is UpgradeMode.STATELESS

    @property
    def way_back(self) -> str:
        """Name of the savepoint that a rollback may restore; empty where there is none."""
        return self.savepoint.name if self.savepoint is not None else self.restores

    @classmethod
    def of(cls, plan: OperationPlan) -> UpgradePlan:
        """The decisions of an operation."""
        return cls.model_validate(plan.decisions)

    def operation(self, kind: str, application: str, reason: str) -> OperationPlan:
        """The operation: until it has ended, no other process starts the application."""
        return OperationPlan(
            operation=kind,
            application=application,
            reason=reason,
            decisions=self.model_dump(mode="json"),
            holds_application=True,
        )


def plan_upgrade(
    application: Application,
    record: JobRecord,
    new: SpecFile,
    *,
    mode: UpgradeMode,
    rolls_back: bool,
    owner: str,
    ready_timeout_s: float | None = None,
    is_same_changed: bool = False,
) -> UpgradePlan | None:
    """The plan of going to a changed specification, where that takes more than a stop and a start; else nothing.

    Args:
        application: which.
        record: the application's record.
        new: the specification to go to.
        mode: what happens to the state.
        rolls_back: whether the last good specification comes back where the new one is not healthy in time.
        owner: see :class:`UpgradePlan`.
        ready_timeout_s: see :class:`UpgradePlan`; by default what the new specification says.
        is_same_changed: whether the same specification counts as a changed one: its code is another, or it was asked
            for. There is no way back then: only specifications are kept, not code.
    """
    if not record.spec_hash or (record.spec_hash == new.hash and not is_same_changed):
        return None
    good = last_good(application.directory) if rolls_back else None
    back = good if good is not None and good.hash != new.hash else None
    if mode is UpgradeMode.LAST_STATE and back is None:
        return None
    savepoint = _savepoint(application, record) if mode is UpgradeMode.SAVEPOINT else None
    return UpgradePlan(
        mode=mode,
        new=Document.of(new),
        back=None if back is None else Document.of(back),
        savepoint=savepoint,
        rejects=new.hash,
        owner=owner,
        ready_timeout_s=ready_timeout_s or new.spec.health.readiness_timeout_s,
    )


def _savepoint(application: Application, record: JobRecord) -> SavepointDecisions:
    # DAG files import this module, and are parsed fast: what loads topologies is imported where it is needed.
    from millrace.operations.savepoints.create import plan_savepoint

    running = record.is_driver_alive(application.directory)
    return SavepointDecisions.model_validate(plan_savepoint(application, name="", running=running).decisions)
