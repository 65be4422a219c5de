"""Whether everything that a reset promised holds, found out again from the broker and the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millrace.errors import OperationError
from millrace.install.connection import Connection
from millrace.kafka.offsets import begin_offsets, committed_offsets
from millrace.launch.checks import Check
from millrace.operations import StepContext
from millrace.operations.reset import activity
from millrace.operations.reset.decisions import ResetDecisions
from millrace.operations.savepoints.location import launched_repository
from millrace.state.directory import StateDirectory
from millrace.task.signature import Signature


def check(context: StepContext, decided: ResetDecisions, connection: Connection) -> Mapping[str, Any]:
    """Makes every check.

    Returns:
        ``checks``: a line for each.

    Raises:
        OperationError: something does not hold; the reset can be resumed, which checks again.
    """
    checks = list(_checks(context, decided, connection))
    if failed := [each for each in checks if not each.ok]:
        raise OperationError(
            f"The reset of {decided.application_id} is done, but "
            + "; ".join(f"{each.name}: {each.text}" for each in failed)
            + ".",
            remedy="find who changed it meanwhile, abandon this reset (`millrace operations abandon`) and reset again",
        )
    return {"checks": [f"{each.name}: {each.text}" for each in checks]}


def _checks(context: StepContext, decided: ResetDecisions, connection: Connection) -> Iterator[Check]:
    admin = connection.administrator()
    wanted = {(topic, partition): offset for topic, partition, offset in context.results["offsets"]["offsets"]}
    # Asked for by name: what is committed for a topic that is gone shows too.
    committed = committed_offsets(admin, decided.application_id, None)
    signatures = {place: Signature.of({place: committed[place]}) for place in wanted if place in committed}
    moved = [
        f"{topic}-{partition}"
        for (topic, partition), offset in sorted(wanted.items())
        if (topic, partition) not in committed
        or committed[topic, partition].offset != offset
        or (signature := signatures[topic, partition]) is None
        or signature.run != decided.run
    ]
    yield Check(
        name="offsets",
        ok=not moved,
        text=f"{', '.join(moved)} is not where it was set"
        if moved
        else f"{len(wanted)} partitions are where they were set",
    )
    left = sorted(admin.describe_topics(decided.deletes))
    stale = sorted({topic for topic, _ in committed} & set(decided.deletes))
    yield Check(
        name="internal topics",
        ok=not left and not stale,
        text=f"{', '.join(left or stale)} is still there"
        if left or stale
        else f"{len(decided.deletes)} are gone, their offsets too",
    )
    root = StateDirectory(decided.state_dir).application(decided.application_id)
    yield Check(name="local state", ok=not root.exists(), text=f"{root} {'is there' if root.exists() else 'is gone'}")
    if decided.empties:
        ends = {(each.topic, each.partition): each.end for each in decided.empties}
        begins = begin_offsets(admin, list(ends))
        full = [f"{topic}-{partition}" for (topic, partition), end in ends.items() if begins[topic, partition] < end]
        yield Check(
            name="records",
            ok=not full,
            text=f"{', '.join(full)} still has some"
            if full
            else f"{len(ends)} partitions are empty up to what they had",
        )
    if decided.savepoints:
        names = launched_repository(context.application).names()
        kept = sorted(set(names) & set(decided.savepoints))
        text = f"{', '.join(kept)} is still there" if kept else f"{len(decided.savepoints)} are deleted"
        yield Check(name="savepoints", ok=not kept, text=text)
    statuses = connection.statuses()
    status = statuses.get(decided.application_id)
    is_ours = status is not None and status.run_id == context.id
    yield Check(
        name="status",
        ok=is_ours,
        text="nobody has started it since" if is_ours else "a driver was started meanwhile",
    )
    members = "" if decided.force else activity.members(admin, decided.application_id)
    yield Check(name="group", ok=not members, text=members or "it has no members")
