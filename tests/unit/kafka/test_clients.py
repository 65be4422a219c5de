"""What librdkafka's errors become."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from millrace.errors import BrokerUnavailableError, MillraceError, OperationError, PreflightError
from millrace.kafka.clients import translate


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError._TIMED_OUT, BrokerUnavailableError, "No broker answered at there:9092 while reading offsets"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, BrokerUnavailableError, "was in charge yet while reading offsets"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, BrokerUnavailableError, "was in charge yet while reading offsets"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, PreflightError, "refused reading offsets"),
        (KafkaError.INVALID_PARTITIONS, OperationError, "failed reading offsets: INVALID_PARTITIONS"),
    ],
)
def test_an_error_says_who_failed_at_what_and_whether_waiting_helps(
    code: int, kind: type[MillraceError], says: str
) -> None:
    error = translate(KafkaError(code), doing="reading offsets", bootstrap_servers="there:9092")
    assert type(error) is kind
    assert says in error.message
    assert error.remedy
