"""``topology.optimization`` says which rewrites a specification's topology gets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, JoinWindows, Materialized, StreamsBuilder
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError
from millrace.rewrites import REWRITES
from millrace.serdes import StringSerde
from millrace.topology.topology import FrozenTopology

TEXT = Consumed.with_(StringSerde(), StringSerde())


def build(builder: StreamsBuilder) -> None:
    builder.table("prices", TEXT, Materialized.as_("prices"))
    stream = builder.stream("in", TEXT)
    window = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
    stream.join(stream, lambda one, other: one + other, window).to("joined")
    keyed = stream.select_key(lambda _, value: value)
    keyed.group_by_key().count(Materialized.as_("first")).to_stream().to("counts")
    keyed.group_by_key().count(Materialized.as_("second")).to_stream().to("counts")


def loaded(optimization: str | None) -> FrozenTopology:
    settings = {"application.id": "app", "bootstrap.servers": "b:1", "default.key.serde": "string"}
    settings["default.value.serde"] = "string"
    if optimization is not None:
        settings["topology.optimization"] = optimization
    return load_topology(f"{__name__}:build", StreamsConfig.from_mapping(settings))


def effects(topology: FrozenTopology) -> tuple[bool, int, int]:
    """Whether the table reads its input as changelog; repartition topics; stores of the self-join."""
    stores = {store.name: store for part in topology.sub_topologies for store in part.stores}
    repartitions = topology.describe().count("(topic: ") - topology.describe().count("Sink: KSTREAM-SINK")
    joins = sum("JOIN" in name for name in stores)
    return stores["prices"].source_topic is not None, repartitions, joins


def test_nothing_is_rewritten_unless_asked() -> None:
    assert effects(loaded(None)) == effects(loaded("none"))
    assert effects(loaded("none"))[0] is False


def test_each_rewrite_is_switched_by_its_name_in_kafka_streams() -> None:
    plain = effects(loaded("none"))
    assert effects(loaded("reuse.ktable.source.topics")) == (True, plain[1], plain[2])
    assert effects(loaded("merge.repartition.topics")) == (False, plain[1] - 1, plain[2])
    assert effects(loaded("single.store.self.join")) == (False, plain[1], plain[2] - 1)
    assert effects(loaded("reuse.ktable.source.topics, single.store.self.join")) == (True, plain[1], plain[2] - 1)
    assert effects(loaded("all")) == (True, plain[1] - 1, plain[2] - 1)


def test_all_means_every_rewrite() -> None:
    config = StreamsConfig.from_mapping(
        {"application.id": "app", "bootstrap.servers": "b:1", "topology.optimization": "all"}
    )
    assert set(config.rewrites) == set(REWRITES)


@pytest.mark.parametrize("value", ["reuse", "all,merge.repartition.topics", "none,all"])
def test_what_is_not_known_or_contradicts_itself_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"topology\.optimization"):
        loaded(value)
