"""Preflight: all that can be checked before a driver is started. Every check runs, not only until one fails."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.errors import BrokerUnavailableError, MillraceError
from millrace.install.launchers import launcher_of_kind
from millrace.install.spec import ApplicationSpec
from millrace.kafka.java import find_java
from millrace.launch.checks import Check, Report
from millrace.topology.layout import ApplicationTopics
from millrace.topology.pickling import check_picklable
from millrace.topology.source_topics import patterns_of, with_matched_topics
from millrace.topology.topology import FrozenTopology


def preflight(spec: ApplicationSpec, *, discards_state: bool = False) -> Report:
    """Check what an application needs; changes nothing. Takes some seconds, and up to half a minute without a broker.

    Args:
        spec: the specification; the topics that it declares count as there.
        discards_state: whether its state is deleted, or replaced, before it starts, so that it need not fit.

    Returns:
        The report; what cannot be checked because something before it failed is left out.
    """
    if not spec.preflight.enabled:
        return Report(
            application=spec.name, checks=(Check(name="preflight", ok=True, text="switched off by the specification"),)
        )
    return Report(application=spec.name, checks=tuple(_checks(spec, discards_state=discards_state)))


def _checks(spec: ApplicationSpec, *, discards_state: bool) -> Iterator[Check]:
    yield _attempt("java", lambda: str(find_java()))
    yield from _state_directory(spec)
    topology, check = _topology(spec)
    yield check
    # The heavy imports come here: DAG files import this module, and must be parsed fast.
    from millrace.launch.broker_checks import broker_checks, input_topics, output_topics
    from millrace.launch.broker_view import view_broker

    config = spec.streams_config()
    if topology is not None and patterns_of(topology):
        topology, check = _matched(spec, topology, config)
        yield check
    topics: set[str] = set()
    if topology is not None:
        topics.update(input_topics(topology), output_topics(topology, config))
        topics.update(ApplicationTopics(topology, config.application_id).own)
    try:
        view = view_broker(config, topics=topics)
    except MillraceError as error:
        name = "broker" if isinstance(error, BrokerUnavailableError) else "broker access"
        yield Check(name=name, ok=False, text=error.message, remedy=error.remedy)
        return
    yield Check(name="broker", ok=True, text=f"{view.brokers} brokers at {config.bootstrap_servers}")
    if topology is not None:
        yield from broker_checks(spec, topology, view, discards_state=discards_state)


def _matched(
    spec: ApplicationSpec, topology: FrozenTopology, config: StreamsConfig
) -> tuple[FrozenTopology | None, Check]:
    """The topology with the topics that its patterns match; those that a deployment creates first count as there."""
    from millrace.install.connection import Connection

    name = "topic patterns"
    try:
        existing = Connection.of(config).administrator().topic_names()
        declared = {topic.name for topic in spec.topics}
        matched = with_matched_topics(topology, existing | declared, config.application_id)
    except MillraceError as error:
        return None, Check(name=name, ok=False, text=error.message, remedy=error.remedy)
    texts = [
        f"{source.pattern.pattern!r} matches {', '.join(source.topics)}"
        for source in patterns_of(matched)
        if source.pattern is not None
    ]
    return matched, Check(name=name, ok=True, text="; ".join(texts))


def _attempt(name: str, action: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, text=action())
    except MillraceError as error:
        return Check(name=name, ok=False, text=error.message, remedy=error.remedy)


def _topology(spec: ApplicationSpec) -> tuple[FrozenTopology | None, Check]:
    from millrace.dsl.loading import load_topology

    try:
        topology = load_topology(spec.module, spec.streams_config())
        check_picklable(topology)
    except MillraceError as error:
        return None, Check(name="topology", ok=False, text=error.message, remedy=error.remedy)
    stores = sum(len(sub.stores) for sub in topology.sub_topologies)
    text = f"{len(topology.sub_topologies)} sub-topologies, {stores} stores, fingerprint {topology.fingerprint}"
    return topology, Check(name="topology", ok=True, text=text)


def _state_directory(spec: ApplicationSpec) -> Iterator[Check]:
    if elsewhere := launcher_of_kind(spec.launcher.kind).state_elsewhere(spec):
        yield Check(name="state directory", ok=True, text=f"stores are {elsewhere}")
        return
    directory = Path(spec.streams_config().state_dir)
    nearest = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        problem = f"{nearest} is no directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem = f"{nearest} cannot be written"
    else:
        problem = _write_problem(nearest)
    yield Check(
        name="state directory",
        ok=not problem,
        text=problem or f"{directory} can be written",
        remedy="correct its permissions, or set state.dir to another directory",
    )
    free_mb = shutil.disk_usage(nearest).free // 2**20
    least_mb = spec.preflight.least_free_disk_mb
    yield Check(
        name="disk space",
        ok=free_mb >= least_mb,
        text=f"{free_mb} MiB are free at {nearest}, {least_mb} are needed",
        remedy="free some space, set state.dir to another disk, or lower preflight.least_free_disk_mb",
    )


def _write_problem(directory: Path) -> str:
    # Permissions do not tell of read-only mounts and full disks.
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return f"{directory} cannot be written: {error.strerror}"
    return ""
