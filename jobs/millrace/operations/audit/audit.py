"""``audit``: goes through the stores of an application."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.driver.matched_topics import with_topics_read
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError, OperationError, StateError
from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.launchers import refuse_state_elsewhere
from millrace.operations.audit.comparing import Comparison
from millrace.operations.audit.database import opened
from millrace.operations.audit.replay import OutOfTimeError, replay
from millrace.operations.audit.report import AuditReport, Difference, DifferenceKind, StoreAudit
from millrace.operations.audit.snapshot import Snapshot, snapshot
from millrace.topology.layout import task_numbers
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What is audited, and for how long.

    Args:
        sample: share of the keys, above 0 and up to 1; versioned stores and suppression buffers are always whole.
        budget_s: seconds after which no more is compared; what is left is said to be skipped.
        stores: names of the stores; none takes all.
        listed: how many differences are told by key; all are counted.
    """

    sample: float = 1.0
    budget_s: float = 600.0
    stores: tuple[str, ...] = ()
    listed: int = 100


def audit(
    application: Application,
    options: AuditOptions | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Compare each store with a replay of its changelog.

    A stopped application's databases are read as they lie; a running one's are copied in hard links between two
    batches, with what they stand for, and compared while it goes on. Needs disk for the copies that compaction keeps
    alive and for one replayed store at a time. A crash leaves files that the next audit removes.

    Args:
        application: which.
        options: what is audited.
        progress: takes lines that say how far it is.

    Raises:
        ConfigurationError: there is no such application, or it has no such store.
        StateDirectoryLockedError: another audit runs, or a process that was not deployed here has the stores.
        OperationError: the running application does not answer, or its stores are not on this host.
    """
    chosen = options or AuditOptions()
    if not 0 < chosen.sample <= 1:
        raise ConfigurationError(f"A sample of {chosen.sample:g} is none.", remedy="give one above 0 and up to 1")
    began = time.monotonic()
    spec = application.launched.spec
    refuse_state_elsewhere(spec, what="audit")
    config = spec.streams_config()
    topology = with_topics_read(load_topology(spec.module, config), config)
    _check_names(topology, chosen.stores)
    directory = application.directory
    with snapshot(directory, config) as taken:
        auditor = _Auditor(config, topology, chosen, taken, deadline=began + chosen.budget_s, progress=progress)
        stores = tuple(auditor.run())
    report = AuditReport(
        application=application.name,
        running=taken.running,
        sample=chosen.sample,
        held_s=taken.held_s,
        took_s=time.monotonic() - began,
        stores=stores,
        differences=tuple(auditor.differences),
    )
    directory.path.mkdir(parents=True, exist_ok=True)
    counted = sum(each.differences for each in stores)
    append_journal(directory, "audit", "agrees" if report.agrees else "differs", differences=counted)
    return report


class _Auditor:
    """Goes through the stores of a snapshot."""

    def __init__(
        self,
        config: StreamsConfig,
        topology: FrozenTopology,
        options: AuditOptions,
        taken: Snapshot,
        *,
        deadline: float,
        progress: Callable[[str], None],
    ) -> None:
        self.differences: list[Difference] = []
        self._config = config
        self._topology = topology
        self._options = options
        self._taken = taken
        self._deadline = deadline
        self._progress = progress

    def run(self) -> Iterator[StoreAudit]:
        """Each store of each task."""
        for task in sorted({*self._taken.databases, *self._taken.elsewhere}, key=task_numbers):
            number, _ = task_numbers(task)
            parts = [part for part in self._topology.sub_topologies if part.number == number]
            for store in [store for part in parts for store in part.stores]:
                if self._options.stores and store.name not in self._options.stores:
                    continue
                why = self._why_not(store, task)
                if why:
                    yield StoreAudit(store=store.name, task=task, skipped=why)
                    continue
                self._progress(f"auditing {store.name} of task {task}")
                yield self._audit(store, task)

    def _why_not(self, store: StoreSpec, task: str) -> str:
        if task in self._taken.elsewhere:
            return f"its database is on {self._taken.elsewhere[task]}"
        if not store.has_changelog:
            return "it is not logged"
        if store.custom is not None:
            return "it is a store of the application's own"
        if store.backend is not StoreBackend.ROCKSDB or store.capacity is not None:
            return "it is kept in memory, and made from its changelog at each start"
        return "the time was over" if time.monotonic() > self._deadline else ""

    def _audit(self, store: StoreSpec, task: str) -> StoreAudit:
        whole = store.kind in (StoreKind.VERSIONED, StoreKind.BUFFER)
        sample = 1.0 if whole else self._options.sample
        scratch = self._taken.scratch / "replay"
        try:
            with opened(self._taken.databases[task]) as audited:
                records = replay(
                    scratch,
                    store,
                    self._config,
                    partition=task_numbers(task)[1],
                    position=audited.position,
                    segments=audited.segments(store),
                    sample=sample,
                    deadline=self._deadline,
                )
                with opened(scratch / "rocksdb") as replayed:
                    comparison = Comparison(store, task, audited, replayed, sample=sample, deadline=self._deadline)
                    count = sum(map(self._keep, comparison.differences()))
        except OutOfTimeError as error:
            return StoreAudit(store=store.name, task=task, skipped=error.message)
        except StateError as error:
            self._keep(Difference(store=store.name, task=task, kind=DifferenceKind.UNREADABLE, text=error.message))
            return StoreAudit(store=store.name, task=task, differences=1)
        finally:
            _remove(scratch)
        return StoreAudit(store=store.name, task=task, keys=comparison.keys, records=records, differences=count)

    def _keep(self, difference: Difference) -> int:
        if len(self.differences) < self._options.listed:
            self.differences.append(difference)
        return 1


def _check_names(topology: FrozenTopology, names: tuple[str, ...]) -> None:
    known = {store.name for part in topology.sub_topologies for store in part.stores}
    if unknown := sorted(set(names) - known):
        raise OperationError(
            f"The application has no store {', '.join(unknown)}.", remedy=f"it has {', '.join(sorted(known)) or 'none'}"
        )


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
