"""Names of topics that a broker would refuse, found before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millrace.errors import TopologyError
from millrace.topology.layout import ApplicationTopics
from millrace.topology.naming import LONGEST_TOPIC_NAME, colliding_names, problem_of_name
from millrace.topology.topology import FrozenTopology

_SHORTEST_APPLICATION_ID = "a"


@dataclass(frozen=True, kw_only=True)
class _NamedTopic:
    """A topic, and what in the topology it belongs to."""

    name: str
    owner: str
    internal: bool


def check_topic_names(
    topology: FrozenTopology, application_id: str | None = None, *, dead_letter_topic: str | None = None
) -> None:
    """Checks the names of all topics that an application reads and writes, as far as the records do not choose them.

    Args:
        topology: the topology.
        application_id: prefix of the internal topics; ``None`` checks what every application id would give.
        dead_letter_topic: the application's, where it has one.

    Raises:
        TopologyError: a name is too long or not legal, or two differ in nothing but ``.`` and ``_``, which the broker
            takes for a collision. Every such name is listed.
    """
    topics = list(_topics(topology, application_id or _SHORTEST_APPLICATION_ID))
    if dead_letter_topic is not None:
        topics.append(_NamedTopic(name=dead_letter_topic, owner="the dead-letter records", internal=False))
    problems = [
        f"{_shown(topic.name, application_id, internal=topic.internal)}, the topic of {topic.owner}, {problem}"
        for topic in topics
        if (problem := problem_of_name(topic.name))
    ]
    if problems:
        raise TopologyError(
            f"The broker would refuse {_count(problems)}: {'; '.join(problems)}.",
            remedy=f"shorten application.id ({_length(application_id)}), or the name of the store, operator or topic: "
            f"a topic's name has at most {LONGEST_TOPIC_NAME} characters, of a-z A-Z 0-9 . _ -, and is not '.' or '..'",
        )
    owners = {topic.name: topic.owner for topic in topics}
    collisions = colliding_names(owners, owners=owners)
    if collisions:
        raise TopologyError(
            f"The broker would refuse topics whose names differ in '.' and '_' only: {'; '.join(collisions)}.",
            remedy="give one of each two another name; in the names of its metrics the broker writes '_' for '.'",
        )


def _topics(topology: FrozenTopology, application_id: str) -> Iterator[_NamedTopic]:
    for name in sorted(topology.external_inputs):
        yield _NamedTopic(name=name, owner="an input", internal=False)
    for name in sorted(topology.external_outputs - topology.external_inputs):
        yield _NamedTopic(name=name, owner="an output", internal=False)
    topics = ApplicationTopics(topology, application_id)
    for name, repartition in topics.repartition_topics.items():
        yield _NamedTopic(name=name, owner=f"repartition {repartition}", internal=True)
    for store, changelog in topics.own_changelogs.items():
        yield _NamedTopic(name=changelog, owner=f"store {store}", internal=True)


def _shown(name: str, application_id: str | None, *, internal: bool) -> str:
    if internal and application_id is None:
        return f"<application.id>{name.removeprefix(_SHORTEST_APPLICATION_ID)}"
    return name


def _count(problems: list[str]) -> str:
    return "the name of a topic" if len(problems) == 1 else f"the names of {len(problems)} topics"


def _length(application_id: str | None) -> str:
    return "of one character at least" if application_id is None else f"{len(application_id)} characters"
