from __future__ import annotations

from millrace.config import StreamsConfig
from millrace.spark.micro_batches.source import source_options


def options(**config: str) -> dict[str, str]:
    return source_options(
        ["in"], StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "b:1", **config})
    )


def test_a_dead_leader_is_waited_for_half_a_minute_unless_a_request_may_take_longer() -> None:
    assert options()["kafka.default.api.timeout.ms"] == "30000"
    slow = options(**{"consumer.request.timeout.ms": "45000"})
    assert slow["kafka.request.timeout.ms"] == "45000"
    assert "kafka.default.api.timeout.ms" not in slow, "Java refuses one that is shorter than a request's"
    assert options(**{"consumer.default.api.timeout.ms": "90000"})["kafka.default.api.timeout.ms"] == "90000"


def test_only_committed_records_are_read_in_a_group_of_spark_s_own() -> None:
    found = options()
    assert found["kafka.isolation.level"] == "read_committed"
    assert found["failOnDataLoss"] == "true"
    assert found["kafka.group.id"] == "a-spark"


def test_a_poll_of_spark_s_consumers_is_limited_as_one_of_a_stream_thread() -> None:
    assert options()["kafka.max.poll.records"] == "5000"
    for name in ("max.poll.records", "consumer.max.poll.records"):
        assert options(**{name: "70"})["kafka.max.poll.records"] == "70"
