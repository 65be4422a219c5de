"""The steps of a reset, each safe to repeat.

The offsets go first, signed by a run that no older task may follow: whatever is still there afterwards (a changelog, a
store of another host) is from before, and is not taken for the application's state any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher
from millrace.install.connection import Connection
from millrace.install.named_cluster import config_of
from millrace.kafka.groups import fence_and_commit
from millrace.kafka.offsets import begin_offsets
from millrace.kafka.producer import Offsets
from millrace.operations import OperationPlan, Step, StepContext, operation
from millrace.operations.reset import activity
from millrace.operations.reset.check import check
from millrace.operations.reset.decisions import PartitionMove, ResetDecisions
from millrace.operations.reset.plan import clamped_again
from millrace.operations.savepoints.location import launched_repository
from millrace.state.directory import StateDirectory
from millrace.task.signature import Signature
from millrace.topology.layout import task_name
from millrace.topology.topic_partition import TopicPartition

KIND = "reset"


@operation(KIND)
def steps(plan: OperationPlan) -> Sequence[Step]:
    """Returns the steps of a reset."""
    return list(_steps(ResetDecisions.model_validate(plan.decisions)))


def _steps(decided: ResetDecisions) -> Iterator[Step]:
    name = decided.application_id
    ids = len(decided.transactional_ids)
    yield Step(
        name="fence",
        text=f"Make sure that no process runs {name}, and fence its last driver.",
        run=lambda context: _fence(context, decided),
    )
    yield Step(
        name="offsets",
        text=f"Set the offsets of group {name} under each of its {ids} transactional ids, so that nothing from before "
        f"writes any more: {_moves_text(decided.moves)}."
        + (
            f" Those of topics that it does not read stay: {', '.join(stale)}."
            if (stale := decided.stale_inputs)
            else ""
        ),
        run=lambda context: _set_offsets(context, decided),
    )
    if decided.deletes:
        kept = f" (kept: {', '.join(decided.keeps)})" if decided.keeps else ""
        yield Step(
            name="internal-topics",
            text=f"Delete {len(decided.deletes)} internal topics, which the next start creates again: "
            f"{', '.join(decided.deletes)}{kept}.",
            run=lambda context: _delete_topics(context, decided),
        )
    yield Step(
        name="local-state",
        text=f"Remove the stores, standby copies and copies of global tables of {name} from {decided.state_dir} of "
        "this host; those of other hosts are not used any more.",
        run=lambda _: _remove_state(decided),
    )
    if decided.empties:
        counts = {topic: len(list(each)) for topic, each in groupby(decided.empties, lambda each: each.topic)}
        yield Step(
            name="records",
            text="Delete the records of "
            + ", ".join(f"{topic} ({count} partitions)" for topic, count in counts.items())
            + ".",
            run=lambda context: _delete_records(context, decided),
        )
    if decided.savepoints:
        yield Step(
            name="savepoints",
            text=f"Delete {len(decided.savepoints)} savepoints: {', '.join(decided.savepoints)}.",
            run=lambda context: _delete_savepoints(context, decided),
        )
    yield Step(
        name="status",
        text="Say in the status topic that it was reset: the next start takes any topology and number of partitions.",
        run=lambda context: _tell(context, decided),
    )
    yield Step(
        name="check",
        text="Check that all of this holds.",
        run=lambda context: check(context, decided, connection_of(context, decided)),
    )


def connection_of(context: StepContext, decided: ResetDecisions) -> Connection:
    """Returns the connection to the cluster."""
    return Connection.of(config_of(context.application, decided.cluster, use=decided.use))


def _moves_text(moves: Sequence[PartitionMove]) -> str:
    texts = []
    for topic, each in groupby(moves, lambda move: move.topic):
        offsets_text = "; ".join(
            f"{move.partition} stays at {move.after}" if move.is_kept else f"{move.partition} {move}" for move in each
        )
        texts.append(f"{topic}: {offsets_text}")
    return ". ".join(texts) or "there are none"


def _fence(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    connection = connection_of(context, decided)
    statuses = connection.statuses()
    last = statuses.get(decided.application_id)
    refuse_running(context, connection, last, decided)
    return {"driver_epoch": _publish(context, decided, connection, {"reason": f"{context.id} is under way"})}


def refuse_running(
    context: StepContext, connection: Connection, last: ApplicationStatus | None, decided: ResetDecisions
) -> None:
    """Raises where a process runs the application.

    Raises:
        OperationError: says who.
        StateDirectoryLockedError: a process uses its local state.
    """
    signs = [activity.runs_here(context.directory)]
    if not decided.force:
        signs += [
            activity.runs_elsewhere(last),
            activity.members(connection.administrator(), decided.application_id),
        ]
    if any(signs):
        raise activity.refusal(decided.application_id, list(filter(None, signs)), what=KIND)
    StateDirectory(decided.state_dir).check_unused(decided.application_id)


def _set_offsets(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    connection = connection_of(context, decided)
    admin = connection.administrator()
    committed: dict[TopicPartition, int] = {}

    def read() -> Offsets:
        # Once all ids are taken over, so that the log has what older transactions have left.
        committed.update(clamped_again(admin, decided.moves))
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        for task in decided.tasks:
            signature = Signature(
                run=decided.run,
                partition_times={move.topic_partition: move.partition_time for move in task.moves},
                changelogs=task.changelogs,
                stream_times=task.stream_times,
                reset=decided.run,
            )
            texts = signature.to_metadata(
                {move.topic_partition: committed[move.topic_partition] for move in task.moves}
            )
            offsets |= {topic_partition: (committed[topic_partition], text) for topic_partition, text in texts.items()}
        return offsets

    fence_and_commit(
        connection.bootstrap_servers,
        decided.transactional_ids,
        read,
        decided.application_id,
        settings=connection.producer,
    )
    return {"offsets": [[*topic_partition, offset] for topic_partition, offset in sorted(committed.items())]}


def _delete_topics(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    admin = connection_of(context, decided).administrator()
    found = sorted(admin.describe_topics(decided.deletes))
    admin.delete_topics(found)
    return {"deleted": found}


def _remove_state(decided: ResetDecisions) -> Mapping[str, Any]:
    tasks = StateDirectory(decided.state_dir).clean(decided.application_id)
    return {"tasks": [task_name(number, partition) for number, partition in tasks]}


def _delete_records(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    admin = connection_of(context, decided).administrator()
    ends = {(each.topic, each.partition): each.end for each in decided.empties}
    begins = begin_offsets(admin, list(ends))
    left = {topic_partition: end for topic_partition, end in ends.items() if begins[topic_partition] < end}
    admin.delete_records(left)
    return {"partitions": len(left)}


def _delete_savepoints(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    repository = launched_repository(context.application)
    return {"freed_bytes": sum(repository.remove(name) for name in decided.savepoints)}


def _tell(context: StepContext, decided: ResetDecisions) -> Mapping[str, Any]:
    connection = connection_of(context, decided)
    offsets: dict[str, dict[int, int]] = {}
    for topic, partition, offset in context.results["offsets"]["offsets"]:
        if topic not in decided.deletes:
            offsets.setdefault(topic, {})[partition] = offset
    topics = connection.administrator().describe_topics(sorted(offsets))
    return {
        "driver_epoch": _publish(
            context,
            decided,
            connection,
            {
                "reason": f"reset by {context.id}",
                "remedy": "start it",
                "topology_fingerprint": "",
                "topology_summary": {},
                "offsets": offsets,
                "topic_ids": {name: topic.topic_id for name, topic in topics.items()},
                "partitions": {name: topic.partitions for name, topic in topics.items()},
                "global_topic_ids": {},
            }
            if not decided.keeps or decided.forgets_topology
            # What is kept is read by the next topology, which must fit it.
            else {"reason": f"reset by {context.id}", "remedy": "start it", "offsets": offsets},
        )
    }


def _publish(context: StepContext, decided: ResetDecisions, connection: Connection, changes: Mapping[str, Any]) -> int:
    """Publishes as the application's newest driver, which fences every older one; gives the epoch."""
    now = time.time()
    with StatusPublisher(
        connection.bootstrap_servers, decided.application_id, client_settings=connection.admin, timeout_s=30.0
    ) as publisher:
        last = publisher.open()
        base = last or ApplicationStatus(
            application_id=decided.application_id,
            state=ApplicationState.NOT_RUNNING,
            driver=DriverIdentity.of_this_process(),
            driver_epoch=publisher.epoch,
        )
        publisher.publish(
            base.model_copy(
                update={
                    "state": ApplicationState.NOT_RUNNING,
                    "remedy": f"resume it with `millrace operations resume {context.plan.application}`",
                    "paused": False,
                    "control_address": "",
                    "driver": DriverIdentity.of_this_process(),
                    "driver_epoch": publisher.epoch,
                    "run_id": context.id,
                    "transactional_ids": list(decided.transactional_ids),
                    "lag": {},
                    "progress": {},
                    "task_hosts": {},
                    "started_at": now,
                    "updated_at": now,
                    **changes,
                }
            )
        )
        return publisher.epoch
