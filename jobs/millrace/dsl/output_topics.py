"""Output topics of ``KStream.to`` and ``Topology.add_sink``: a name, or an extractor that gives one for a record."""

from __future__ import annotations

import pyarrow.compute as pc

from millrace.dsl.callables import check_callable
from millrace.topology.naming import check_name
from millrace.topology.topic_extractors import TopicNameExtractor


def output_topic(topic: str | TopicNameExtractor) -> tuple[str | None, TopicNameExtractor | None]:
    """Returns the name and the extractor; one of the two is ``None``.

    Raises:
        TopologyError: the name is not legal, or the extractor does not take ``(key, value, context)``.
    """
    if isinstance(topic, str):
        return check_name(topic, what="topic"), None
    if not isinstance(topic, pc.Expression):
        check_callable(topic, 3, what="topic name extractor", takes="key, value, context")
    return None, topic
