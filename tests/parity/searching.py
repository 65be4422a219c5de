"""Looks for scenarios in which our results differ from those of Kafka Streams."""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.parity.comparing import as_text, difference
from tests.parity.generating import scenarios
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.reducing import reduced
from tests.parity.scenario import Scenario


class ParityError(AssertionError):
    """Results differ.

    Args:
        scenario: the scenario, as small as it could be made.
        text: what differs.
    """

    def __init__(self, scenario: Scenario, text: str) -> None:
        super().__init__(f"{text}\n\nmake parity REPLAY=<file with this scenario>:\n{as_text(scenario)}")
        self.scenario = scenario


def search(kafka_streams: KafkaStreams, *, examples: int, seed: int, shrink: bool = True) -> None:
    """Runs generated scenarios.

    Args:
        kafka_streams: the other side.
        examples: how many scenarios.
        seed: the same one gives the same scenarios.
        shrink: whether a difference is made smaller.

    Raises:
        ParityError: the smallest scenario found whose results differ.
    """
    try:
        _search(kafka_streams, examples=examples, seed=seed, shrink=shrink)
    except ParityError as error:
        if shrink:
            check(smallest(error.scenario, kafka_streams), kafka_streams)
        raise


def smallest(scenario: Scenario, kafka_streams: KafkaStreams) -> Scenario:
    """A scenario whose results differ with what does not matter left out."""

    def kind(candidate: Scenario) -> str | None:
        found = difference(candidate, kafka_streams)
        return None if found is None else found.kind

    def still_differs(candidate: Scenario) -> bool:
        return kind(candidate) == wanted

    wanted = kind(scenario)

    return reduced(scenario, still_differs)


def _search(kafka_streams: KafkaStreams, *, examples: int, seed: int, shrink: bool) -> None:

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(scenarios())
    def results_are_the_same(scenario: Scenario) -> None:
        check(scenario, kafka_streams)

    results_are_the_same()


def check(scenario: Scenario, kafka_streams: KafkaStreams) -> None:
    """Runs one scenario.

    Raises:
        ParityError: the results differ, or a side stops.
    """
    found = difference(scenario, kafka_streams)
    if found is not None:
        raise ParityError(scenario, found.text)
