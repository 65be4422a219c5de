"""The settings of clients, and the translation of librdkafka's errors to those of Millrace."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from millrace.errors import BrokerUnavailableError, ConfigurationError, MillraceError, OperationError, PreflightError
from millrace.kafka.login import check_login

# librdkafka's own messages; shown only where the logging of the application asks for them.
client_log = logging.getLogger("millrace.librdkafka")
client_log.addHandler(logging.NullHandler())
client_log.propagate = False

_NO_ANSWER = frozenset({
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
})  # fmt: skip
_NO_LEADER_OR_COORDINATOR = frozenset({
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
})  # fmt: skip
_REFUSED = frozenset({
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})  # fmt: skip
_FILES = frozenset(
    {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "https.ca.location"}
)


class AnsweringClient:
    """An admin client that checks whether a broker answers, and writes nothing to standard error."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._client = AdminClient(admin_settings(bootstrap_servers))

    def answers(self, *, timeout_s: float) -> bool:
        """Returns whether at least one broker is known and has answered within ``timeout_s`` seconds."""
        try:
            return bool(self._client.list_topics(timeout=timeout_s).brokers)
        except KafkaException:
            return False


def quiet_admin_client(bootstrap_servers: str) -> AnsweringClient:
    """Returns a client that checks whether a broker answers at this address."""
    return AnsweringClient(bootstrap_servers)


def base_settings(bootstrap_servers: str, overrides: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the settings that all librdkafka clients of Millrace have in common.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        overrides: settings of the user, which win.

    Raises:
        ConfigurationError: a file that they name cannot be read; see also :func:`millrace.kafka.login.check_login`.
    """
    check_login(overrides or {})
    for key, value in (overrides or {}).items():
        if key in _FILES and not os.access(value, os.R_OK):
            raise ConfigurationError(f"{key}, {value}, cannot be read.", remedy=f"correct {key}, or the file's rights")
    return {
        "bootstrap.servers": bootstrap_servers,
        "logger": client_log,
        # A broker that restarts is found again soon; the defaults wait up to ten seconds.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
        **(overrides or {}),
    }


def admin_settings(bootstrap_servers: str, overrides: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the settings of an admin client; see :func:`base_settings`.

    It keeps connections to all brokers. With those that it needs only, two threads of librdkafka 2.15 keep a core busy
    for as long as a request waits for a broker or controller that is away.
    """
    return base_settings(bootstrap_servers, {"enable.sparse.connections": "false", **(overrides or {})})


def translate(error: KafkaError, *, doing: str, bootstrap_servers: str) -> MillraceError:
    """Returns Millrace's error for an error of librdkafka.

    Args:
        error: what librdkafka said.
        doing: what was tried, as in "describing topic payments".
        bootstrap_servers: whom it was asked of.
    """
    code = error.code()
    if is_refusal(error):
        return PreflightError(
            f"The broker at {bootstrap_servers} refused {doing}: {error.str()}.",
            remedy="correct security.protocol, the sasl.* and ssl.* settings, or grant the permission on the broker",
        )
    if code in _NO_ANSWER:
        return BrokerUnavailableError(
            f"No broker answered at {bootstrap_servers} while {doing}: {error.str()}.",
            remedy="start the broker (`millrace broker start`) or correct bootstrap.servers",
        )
    if code in _NO_LEADER_OR_COORDINATOR:
        return BrokerUnavailableError(
            f"No broker at {bootstrap_servers} was in charge yet while {doing}: {error.str()}.",
            remedy="wait until the brokers have chosen one; if that lasts, see which broker is down",
        )
    return OperationError(
        f"The broker at {bootstrap_servers} failed {doing}: {error.name()}: {error.str()}.",
        remedy="see the broker's log",
    )


def is_refusal(error: KafkaError) -> bool:
    """Returns whether the broker refused the login or a permission, as opposed to being unavailable."""
    # A listener that expects another security protocol just hangs up, which has no error code of its own.
    return error.code() in _REFUSED or (error.code() == KafkaError._TRANSPORT and "SSL" in error.str())


def kafka_error(error: KafkaException) -> KafkaError:
    """Returns the error object inside an exception of the client library."""
    inner = error.args[0]
    assert isinstance(inner, KafkaError)
    return inner


def consume_available(consumer: Consumer, most: int, *, timeout_s: float) -> list[Message]:
    """Returns the messages that have arrived; ``Consumer.consume`` alone waits until it has as many as it may return.

    Args:
        consumer: an assigned consumer.
        most: most messages; errors and ends of partitions are some of them.
        timeout_s: how long to wait for the first one, seconds.
    """
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(most - 1, timeout=0)]
