"""Take an application over that has been run by Kafka Streams in Java under the same name."""

from __future__ import annotations

from millrace.install.application import Application
from millrace.install.files import append_journal
from millrace.install.locks import application_lock
from millrace.install.spec import ApplicationSpec
from millrace.operations.action import Action
from millrace.operations.outcome import Outcome


def take_over(application: Application, spec: ApplicationSpec, *, reason: str, dry_run: bool = False) -> Outcome:
    """Sign the offsets that Kafka Streams has committed, so that the application can be deployed and goes on there.

    Its stores are restored from the changelogs when it starts. The way back needs nothing: a Java application goes on
    from our offsets and changelogs.

    Args:
        application: which.
        spec: its specification, which need not be in ``config/apps`` yet; the name is the ``application.id`` that is
            taken over.
        reason: for the journal.
        dry_run: only say what would be taken over.

    Returns:
        What was taken over, a step for each task.

    Raises:
        PreflightError: the Java application still runs, has committed nothing, or has other topics than the topology.
        StateError: a changelog does not fit.
        OperationError: another operation holds the application's lock for too long.
    """
    # Importing these takes seconds, and DAG files import this module.
    from millrace.driver.matched_topics import with_topics_to_read
    from millrace.driver.takeover import Takeover
    from millrace.dsl.loading import load_topology
    from millrace.topology.layout import start_transactional_id

    config = spec.streams_config()
    topology = with_topics_to_read(load_topology(spec.module, config), config)
    takeover = Takeover(config, topology, transactional_id=start_transactional_id(config.application_id))
    directory = application.directory
    if dry_run:
        taken = takeover.plan()
    else:
        directory.path.mkdir(parents=True, exist_ok=True)
        with application_lock(directory):
            taken = takeover.run()
            append_journal(directory, "take-over", "signed", reason=reason, tasks=[str(task) for task in taken])
    return Outcome(
        application=spec.name,
        operation="take-over",
        action=Action.TAKE_OVER if taken else Action.NOTHING,
        text=f"{len(taken)} tasks of Kafka Streams" if taken else "all offsets have the signature of Millrace",
        dry_run=dry_run,
        steps=tuple(str(task) for task in taken),
    )
