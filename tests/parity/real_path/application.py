"""Runs many scenarios as one application through Spark: fed piece by piece, killed and started again meanwhile."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from millrace.dsl import StreamsBuilder
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, end_offsets
from millrace.kafka.topics import TopicSpec
from tests.application import START_LIMIT_S, Application, wait_until
from tests.parity.real_path.preparing import chunks, topics_of, with_prefix
from tests.parity.real_path.tasks import KEPT
from tests.parity.scenario import SETTINGS, Scenario
from tests.parity.scenario_topology import ScenarioTopology
from tests.records import ReadRecord, Record, produce, read_topic

SCENARIOS_VARIABLE = "MILLRACE_TEST_SCENARIOS"
"""Names the file with the scenarios of an application, which its driver reads."""

COMMON_SETTINGS = ["continue after deserialization errors", "continue after processing errors"]
"""What all scenarios of an application have in common: an application has one configuration."""

_LONGEST_PIECE = 4
_LARGEST_BATCHES = (3, 10, 250_000)


@dataclass(frozen=True)
class Kill:
    """When an application dies.

    Args:
        round: number of the round of input.
        pieces: how many pieces of the round it has got by then, as a share.
        committed: what it has committed of those by then, as a share.
        loses_state: whether the state directory is gone afterwards.
    """

    round: int
    pieces: float
    committed: float
    loses_state: bool


def build(builder: StreamsBuilder) -> None:
    """The topology of all scenarios, for the driver."""
    for entry in json.loads(Path(os.environ[SCENARIOS_VARIABLE]).read_text()):
        ScenarioTopology(entry["scenario"], in_columns=entry["in_columns"], builder=builder)


class ScenariosInSpark:
    """Scenarios as one application.

    Args:
        scenarios: by seed; made by :func:`for_broker`, with the ``COMMON_SETTINGS``. Those of even seeds have what has
            a columnar form take it.
        bootstrap_servers: the broker.
        name: the application's, and the prefix of all names.
        directory: where its files go.
        random: decides about pieces of input, the size of batches, and the moments of kills.
        kills: how often the application is killed, its state lost with the first kill.
    """

    def __init__(
        self,
        scenarios: Mapping[int, Scenario],
        bootstrap_servers: str,
        name: str,
        directory: Path,
        random: Random,
        *,
        kills: int,
    ) -> None:
        self._prefixes = {seed: f"{name}-{seed}-" for seed in scenarios}
        self._scenarios = {seed: with_prefix(each, self._prefixes[seed]) for seed, each in scenarios.items()}
        self._bootstrap_servers = bootstrap_servers
        self._name = name
        self._random = random
        self._admin = KafkaAdmin(bootstrap_servers)
        file = directory / "scenarios.json"
        file.write_text(
            json.dumps([{"scenario": each, "in_columns": seed % 2 == 0} for seed, each in self._scenarios.items()])
        )
        config = {"max.batch.records": random.choice(_LARGEST_BATCHES)}
        for sentence in COMMON_SETTINGS:
            config |= SETTINGS[sentence]
        self.application = Application(
            bootstrap_servers,
            name,
            f"{__name__}:build",
            directory,
            config=config,
            environment={SCENARIOS_VARIABLE: str(file)},
        )
        builder = StreamsBuilder()
        for each in self._scenarios.values():
            ScenarioTopology(each, in_columns=False, builder=builder)
        self._topology = builder.build()
        self._rounds = self._cut_into_rounds()
        self._kills = [
            Kill(number, random.random(), random.random(), loses_state=count == 0)
            for count, number in enumerate(sorted(random.sample(range(len(self._rounds)), kills)))
        ]

    def run(self) -> dict[int, dict[str, list[ReadRecord]]]:
        """Feeds the input and gives what was committed to each output topic of each scenario."""
        external = {*self._topology.external_inputs, *self._topology.external_outputs}
        self._admin.create_missing([TopicSpec(name=name, partitions=1, settings=KEPT) for name in sorted(external)])
        self.application.start_and_wait()
        try:
            for number, pieces in enumerate(self._rounds):
                self._feed(pieces, [kill for kill in self._kills if kill.round == number])
                self._wait_until_caught_up(number)
        finally:
            self.application.kill()
        return {
            seed: {
                step["topic"].removeprefix(self._prefixes[seed]): read_topic(self._bootstrap_servers, step["topic"])
                for step in scenario["topology"]
                if step["op"] == "to"
            }
            for seed, scenario in self._scenarios.items()
        }

    def delete_topics(self) -> None:
        """Deletes all topics of the application."""
        self._admin.delete_topics(topics_of(self._topology, self._name))

    def _cut_into_rounds(self) -> list[list[tuple[str, list[Record]]]]:
        """Pieces of input by round: each scenario's next topic, cut anywhere, the scenarios in any order."""
        rounds: list[list[tuple[str, list[Record]]]] = []
        for scenario in self._scenarios.values():
            for number, (topic, records) in enumerate(chunks(scenario)):
                if number == len(rounds):
                    rounds.append([])
                rest = records
                while rest:
                    length = self._random.randint(1, _LONGEST_PIECE)
                    rounds[number].append((topic, rest[:length]))
                    rest = rest[length:]
        return [self._shuffled(pieces) for pieces in rounds]

    def _shuffled(self, pieces: list[tuple[str, list[Record]]]) -> list[tuple[str, list[Record]]]:
        """The pieces in another order, those of each topic in theirs."""
        order = [topic for topic, _ in pieces]
        self._random.shuffle(order)
        remaining = {topic: [each for each in pieces if each[0] == topic] for topic in order}
        return [remaining[topic].pop(0) for topic in order]

    def _feed(self, pieces: list[tuple[str, list[Record]]], kills: list[Kill]) -> None:
        before = self._committed() if kills else 0
        sent = 0
        for number, (topic, records) in enumerate(pieces):
            for kill in [kill for kill in kills if number == int(kill.pieces * len(pieces))]:
                self._kill_at(before + int(kill.committed * sent), loses_state=kill.loses_state)
            produce(self._bootstrap_servers, topic, records)
            sent += len(records)

    def _wait_until_caught_up(self, number: int) -> None:
        try:
            self.application.wait_until_caught_up(START_LIMIT_S)
        except AssertionError as error:
            topic_partitions = self.application.inputs()
            committed, ends = (
                self.application.committed(),
                end_offsets(self._admin, topic_partitions, End.HIGH_WATERMARK),
            )
            behind = {
                topic_partition: (committed.get(topic_partition), end)
                for topic_partition, end in ends.items()
                if committed.get(topic_partition) != end
            }
            where = f"round {number} of {len(self._rounds)}, {self._kills}, committed and ends: {behind}"
            raise AssertionError(f"{error}; {where}\n{self.application.log[-3000:]}") from None

    def _committed(self) -> int:
        """How far the application is in the topics of the scenarios."""
        committed = self.application.committed()
        return sum(
            committed[topic_partition]
            for topic_partition in committed
            if topic_partition[0] in self._topology.external_inputs
        )

    def _kill_at(self, committed: int, *, loses_state: bool) -> None:
        wait_until(lambda: self._committed() >= committed, timeout_s=START_LIMIT_S, what=f"{committed} committed")
        self.application.kill()
        if loses_state:
            shutil.rmtree(self.application.state_directory, ignore_errors=True)
        self.application.start()
