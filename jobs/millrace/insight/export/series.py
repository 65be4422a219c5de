"""Series of an application, checked against their definitions, and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from millrace.errors import OperationError
from millrace.metrics.definitions import MetricDefinition
from millrace.metrics.exported import EXPORTED_METRICS


@dataclass(frozen=True)
class Sample:
    """One value.

    Args:
        metric: what it is of.
        value: the value; it must be finite.
        labels: values of the metric's labels, in its order.

    Raises:
        OperationError: the labels are not the metric's.
    """

    metric: MetricDefinition
    value: float
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.metric.labels) or not math.isfinite(self.value):
            raise OperationError(
                f"{self.metric.name} cannot have the value {self.value} for labels {self.labels}.",
                remedy="report it: the export and the definition of the metric differ",
            )


Groups = Mapping[str, Sequence[Sample]]
"""Samples by application id."""


class _Samples(Collector):
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def collect(self) -> Iterable[Metric]:
        for metric in EXPORTED_METRICS:
            family = GaugeMetricFamily(metric.name, metric.help, labels=["application_id", *metric.labels])
            for application, samples in sorted(self._groups.items()):
                for sample in samples:
                    if sample.metric is metric:
                        family.add_metric([application, *sample.labels], sample.value)
            if family.samples:
                yield family


def text_format(groups: Groups) -> bytes:
    """Samples in Prometheus' text format."""
    return generate_latest(_registry(groups))


def openmetrics(groups: Groups) -> bytes:
    """Samples in the OpenMetrics text format."""
    content: bytes = generate_openmetrics(_registry(groups))  # type: ignore[no-untyped-call]
    return content


def _registry(groups: Groups) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(groups))
    return registry
