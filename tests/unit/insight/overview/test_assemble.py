from __future__ import annotations

import time
from dataclasses import replace

import pytest

from apps.order_pipeline import build
from millrace.driver.status import ApplicationStatus
from millrace.dsl import StreamsBuilder
from millrace.errors import SerializationError
from millrace.insight.overview import ApplicationDetails, NodeKind, PartState, Savepoints
from millrace.insight.overview.assemble import details
from millrace.insight.overview.history import History
from millrace.insight.overview.measurements import measurements
from millrace.insight.overview.probe import ApplicationProbe
from millrace.launch.observation import Observation, Reason, Verdict
from tests.shown_application import RATE, ShownApplication

NOW = float(int(time.time()))


@pytest.fixture(scope="module")
def shown() -> ShownApplication:
    builder = StreamsBuilder()
    build(builder)
    return ShownApplication("orders", builder.build(), started_at=NOW - 1_000)


def probe_application(shown: ShownApplication, now: float, **state: int) -> ApplicationProbe:
    # As a reader gets it: through JSON and through the text of the metrics.
    status = ApplicationStatus.from_json(shown.status(now, **state).to_json())  # type: ignore[arg-type]
    observation = Observation(application="orders", verdict=Verdict.HEALTHY, reason=Reason.WORKING, text="it works")
    return ApplicationProbe(
        application="orders",
        at=now,
        observation=observation,
        status=status,
        measured=measurements(shown.metrics(now).decode()),
        dead_letter_topic="orders-dlq",
    )


def seen(*probes: ApplicationProbe) -> ApplicationDetails:
    history = History()
    for probe in probes:
        if (sample := probe.sample()) is not None:
            history.add(sample)
    last = next((probe.status for probe in reversed(probes) if probe.status is not None), None)
    return details(
        probes[-1], history.samples(), Savepoints(), last_status=last, journal=(), operations=(), log="driver.log"
    )


def test_one_look_knows_totals_and_the_mean_rate(shown: ShownApplication) -> None:
    found = seen(probe_application(shown, NOW)).overview
    parts = len(shown.topology.sub_topologies)
    assert found.state == "RUNNING"
    assert found.records == parts * 1_000 * RATE
    assert found.rate == pytest.approx(parts * RATE)
    assert found.last_commit_at == pytest.approx(NOW - 0.4)
    assert found.query_restarts == 1
    assert found.dead_letters.written == 2 * 2 * parts
    ended = [("committed", 4_000 * parts), ("aborted", 1), ("fenced", 0)]
    assert [(each.outcome, each.total) for each in found.transactions] == ended
    assert found.driver_epoch == 3
    assert found.recovery is None


def test_two_looks_know_what_flows_along_the_edges(shown: ShownApplication) -> None:
    found = seen(probe_application(shown, NOW), probe_application(shown, NOW + 10, lag=7))
    assert found.graph is not None
    nodes = {node.name: node for part in found.graph.parts for node in part.nodes}
    assert nodes["placed"].rate == pytest.approx(RATE, rel=0.01)
    assert nodes["placed"].lag == 14
    assert nodes["accepted-out"].rate == pytest.approx(RATE / 2, rel=0.01)
    repartition = nodes["orders-by-customer-repartition-sink"]
    assert (repartition.kind, repartition.internal) == (NodeKind.SINK, True)
    assert nodes["decided"].stores == ("credit-by-customer",)
    assert found.overview.lag == sum(
        14 for part in shown.topology.sub_topologies for source in part.sources for _ in source.topics
    )


def test_sub_topologies_keep_their_numbers_beside_global_stores(shown: ShownApplication) -> None:
    """Global stores are numbered among the sub-topologies and have no tasks."""
    found = seen(probe_application(shown, NOW, lag=3)).graph
    assert found is not None
    by_number = {part.number: part for part in found.parts}
    assert {each.number for each in shown.topology.parts} == set(by_number)
    assert all(by_number[each.number].state is PartState.GLOBAL for each in shown.topology.global_stores)
    for part in shown.topology.sub_topologies:
        assert by_number[part.number].state is PartState.BEHIND
        assert {node.name for node in by_number[part.number].nodes} == {node.name for node in part.nodes}


def test_a_restoration_has_a_rate_and_an_end(shown: ShownApplication) -> None:
    found = seen(probe_application(shown, NOW, restoring=50_000))
    parts = len(shown.topology.sub_topologies)
    assert found.overview.recovery is not None
    assert found.overview.recovery.remaining == 50_000 * parts
    assert found.overview.recovery.eta_s == pytest.approx(2)
    restoring = [task for task in found.task_list if task.remaining]
    assert [task.state for task in restoring] == ["RESTORING"] * parts
    assert restoring[0].eta_s == pytest.approx(2)


def test_tasks_have_hosts_and_sizes_and_stores_add_up(shown: ShownApplication) -> None:
    found = seen(probe_application(shown, NOW))
    stores = {store.name: store for store in found.stores}
    assert stores["credit-by-customer"].tasks == 2
    assert stores["credit-by-customer"].bytes == 2 * 12_345_678
    assert stores["credit-by-customer"].kind == "key-value"
    task = next(task for task in found.task_list if task.bytes)
    assert task.worker.startswith("worker-")
    assert [task.id for task in found.task_list] == sorted(task.id for task in found.task_list)


def test_a_driver_that_is_gone_leaves_its_topology_without_rates(shown: ShownApplication) -> None:
    gone = replace(
        probe_application(shown, NOW + 10),
        status=None,
        measured=None,
        observation=Observation(
            application="orders", verdict=Verdict.DEAD, reason=Reason.PROCESS_DIED, text="process 1 ended"
        ),
    )
    found = seen(probe_application(shown, NOW), gone)
    assert found.graph is not None
    assert not found.graph.is_current
    assert {part.state for part in found.graph.parts} <= {PartState.UNKNOWN, PartState.GLOBAL}
    assert all(node.rate is None and node.lag is None for part in found.graph.parts for node in part.nodes)
    assert found.overview.lag is None
    assert "deploy it again" in found.overview.remedy


def test_metrics_that_are_none_are_refused_with_a_remedy() -> None:
    with pytest.raises(SerializationError, match="metrics cannot be read"):
        measurements("millrace_stream_task_process_total{oops} nothing\n")
    assert measurements("<html>Bad gateway</html>").transactions == {}
