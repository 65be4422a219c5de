"""Starting a canary: a savepoint of the application, restored into a clone that has outputs of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from millrace.dsl.loading import load_topology
from millrace.errors import OperationError
from millrace.files import write_atomically
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.install.files import write_json
from millrace.install.spec import load_spec_file, spec_file_of
from millrace.kafka.topics import TopicSpec
from millrace.operations import OperationPlan, Step, StepContext, operation, perform, resume, unfinished_operation
from millrace.operations.embedding import embedded
from millrace.operations.outcome import Outcome
from millrace.operations.savepoints.create import KIND as SAVEPOINT
from millrace.operations.savepoints.create import create_savepoint
from millrace.operations.savepoints.location import launched_repository
from millrace.operations.savepoints.manifest import SavepointState
from millrace.operations.savepoints.restore import KIND as RESTORE
from millrace.operations.savepoints.restore import RESTORATION_STEPS, plan_restoration, restore_operation
from millrace.supervise.canary.clone import Canary, canary_path, clone_document, clone_of
from millrace.supervise.deploy import deploy

KIND = "canary-start"


def start(
    application: Application,
    spec: Path,
    *,
    starts: Sequence[str] = (),
    reason: str = "a canary was asked for",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Starts a clone of an application, ``<application>-canary``, with a new specification.

    A savepoint of the application, which goes on, is restored into the clone: it has the same state, and reads the same
    input from the same offsets in a group of its own. What it writes goes to topics of its own, whose names begin with
    ``<application>-canary-``.

    Args:
        application: its name; it was deployed here.
        spec: file with the new specification of the application. It is not the one in ``config/apps``, to which
            supervision would go by itself.
        starts: where input topics start that only the new version reads: ``TOPIC=earliest``, ``TOPIC=latest``,
            ``TOPIC:PARTITION=OFFSET``.
        reason: for the journal.
        dry_run: only say what would be done.
        progress: takes lines that say how far it is.

    Raises:
        OperationError: the application was never deployed, has a canary already, or its name is not in the file.
        TopologyError: the new topology chooses its topics by the records, or does not fit the savepoint.
        MillraceError: a step failed; it can be resumed, under the name of the clone.
    """
    clone = clone_of(application.name)
    candidate = load_spec_file(spec)
    if candidate.spec.name != application.name:
        raise OperationError(
            f"{spec} describes {candidate.spec.name!r}, not {application.name!r}.",
            remedy="name the file of its new version",
        )
    if application.record is None:
        raise OperationError(f"{application} was never deployed here.", remedy="deploy it first")
    if canary_path(application).exists() or application.home.spec_path(clone).exists():
        raise OperationError(
            f"{application} has a canary already, or {application.home.spec_path(clone)} is something else's.",
            remedy=f"promote or drop it: `millrace canary drop {application}`",
        )
    document = clone_document(candidate, application.name)
    config = spec_file_of(document, where=f"the canary's specification, made of {spec},").spec.streams_config()
    topology = load_topology(candidate.spec.module, config)
    prefix = f"{clone}-"
    outputs = {name.removeprefix(prefix): name for name in sorted(topology.external_outputs)}
    topic = config.errors_dead_letter_queue_topic_name
    plan = OperationPlan(
        operation=KIND,
        application=clone,
        reason=reason,
        decisions={
            "of": application.name,
            "savepoint": f"canary-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}",
            "document": document,
            "candidate": candidate.raw,
            "starts": list(starts),
            "outputs": outputs,
            "copies": {
                **outputs,
                **({topic.removeprefix(prefix): topic} if topic is not None else {}),
            },
        },
        holds_application=True,
    )
    return perform(application.home, plan, dry_run=dry_run, progress=progress)


@operation(KIND)
def start_steps(plan: OperationPlan) -> Sequence[Step]:
    """Returns the steps of starting a canary."""
    decided, clone = plan.decisions, plan.application

    def restoration(context: StepContext) -> OperationPlan:
        decisions = context.results["restore-decide"]
        return OperationPlan(operation=RESTORE, application=clone, reason=plan.reason, decisions=decisions)

    def decide(context: StepContext) -> Mapping[str, Any]:
        of, savepoint = decided["of"], decided["savepoint"]
        return plan_restoration(
            Application(context.home, of), savepoint, into=clone, starts=decided["starts"]
        ).decisions

    texts = [(name, f"Restoration of the savepoint into {clone}: {name}.") for name in RESTORATION_STEPS]
    return [
        Step(
            name="savepoint",
            text=f"Take savepoint {decided['savepoint']} of {decided['of']}, which goes on.",
            run=_savepoint,
        ),
        Step(
            name="topics",
            text=f"Make topics for what {clone} writes: {', '.join(decided['copies'].values()) or 'none'}.",
            run=_topics,
        ),
        Step(name="specify", text=f"Write the specification of {clone}.", run=_specify),
        Step(name="restore-decide", text=f"Look how the savepoint fits {clone}.", run=decide),
        *embedded(RESTORE, texts, restoration, restore_operation),
        Step(name="launch", text=f"Launch {clone}.", run=_launch),
    ]


def _savepoint(context: StepContext) -> Mapping[str, Any]:
    home, of, name = context.home, context.plan.decisions["of"], context.plan.decisions["savepoint"]
    unfinished = unfinished_operation(home.application(of))
    if unfinished is not None and unfinished.plan.operation == SAVEPOINT and unfinished.plan.decisions["name"] == name:
        resume(Application(home, of), progress=context.progress)
        return {}
    repository = launched_repository(Application(home, of))
    if name in repository.names() and repository.read(name).state is SavepointState.COMPLETED:
        return {}
    create_savepoint(Application(home, of), name=name, reason=context.plan.reason, progress=context.progress)
    return {}


def _topics(context: StepContext) -> Mapping[str, Any]:
    document = context.plan.decisions["document"]
    copies: dict[str, str] = context.plan.decisions["copies"]
    config = spec_file_of(document, where="the canary's specification").spec.streams_config()
    admin = Connection.of(config).administrator()
    found = admin.describe_topics(sorted(copies))
    if missing := sorted(set(copies) - set(found)):
        raise OperationError(
            f"Output topics of the new version do not exist: {', '.join(missing)}.", remedy="create them first"
        )
    admin.create_missing(
        [
            TopicSpec(name=copy, partitions=found[name].partitions, settings=admin.own_topic_settings(name))
            for name, copy in copies.items()
        ]
    )
    return {"made": sorted(copies.values())}


def _specify(context: StepContext) -> Mapping[str, Any]:
    decided, directory = context.plan.decisions, context.directory
    directory.path.mkdir(parents=True, exist_ok=True)
    canary = Canary(
        of=decided["of"],
        savepoint=decided["savepoint"],
        candidate=decided["candidate"],
        outputs=decided["outputs"],
        made=tuple(decided["copies"].values()),
    )
    write_json(canary_path(Application(context.home, canary.of)), canary.model_dump(mode="json"))
    path = context.home.spec_path(context.plan.application)
    write_atomically(path, yaml.safe_dump(decided["document"], sort_keys=False).encode())
    return {"spec": str(path)}


def _launch(context: StepContext) -> Mapping[str, Any]:
    outcome = deploy(context.application, reason=context.plan.reason, within=context.id, progress=context.progress)
    return {"action": outcome.done}
