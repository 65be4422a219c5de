"""The metrics computed from the driver's own ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import httpx
from prometheus_client.parser import text_string_to_metric_families

from millrace.errors import OperationError
from millrace.insight.export.exported import ExportedApplication
from millrace.insight.export.series import Sample
from millrace.install.record import read_record
from millrace.launch.control_client import ANSWER_LIMIT_S
from millrace.metrics import exported as m
from millrace.metrics.definitions import PHASE_SECONDS_TOTAL, Phase
from millrace.tls import tls_context


def eos(exported: ExportedApplication) -> Iterable[Sample]:
    """Yields the share of time in transactions; nothing where the application does not run."""
    record = read_record(exported.directory)
    if record is None or record.driver is None:
        return
    control = record.driver.probe(exported.directory).control
    if control is None:
        return
    try:
        answer = httpx.get(
            f"{control.address}/metrics", timeout=ANSWER_LIMIT_S, trust_env=False, verify=tls_context()
        ).raise_for_status()
    except httpx.HTTPError as error:
        raise OperationError(
            f"The driver of {exported.application} does not show its metrics: {type(error).__name__} {error}.",
            remedy="look whether it is well with `millrace status`",
        ) from error
    try:
        shares = eos_overhead(answer.text)
    except ValueError as error:
        raise OperationError(
            f"The driver of {exported.application} shows what are no metrics: {error}.",
            remedy="look at its /metrics; run the same version of Millrace on all hosts",
        ) from error
    for subtopology, share in sorted(shares.items()):
        yield Sample(m.EOS_OVERHEAD, share, (subtopology,))


def eos_overhead(exposition: str) -> dict[str, float]:
    """Returns, by sub-topology, the share of the commit phase in all phases' seconds.

    Sub-topologies that did nothing yet are left out.

    Args:
        exposition: what the driver serves at ``/metrics``.

    Raises:
        ValueError: it is no exposition.
    """
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == PHASE_SECONDS_TOTAL.name:
                seconds[sample.labels["subtopology"], sample.labels["phase"]] += sample.value
    totals = {each: sum(seconds[each, phase] for phase in Phase) for each in {each for each, _ in seconds}}
    return {each: seconds[each, Phase.COMMIT] / total for each, total in totals.items() if total > 0}
