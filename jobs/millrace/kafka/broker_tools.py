"""The broker's own command-line tools, for what the client library cannot request: one Java process each."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from millrace.errors import OperationError
from millrace.kafka.broker_java import broker_java
from millrace.kafka.jars import BROKER_JARS, resolve_jars
from millrace.kafka.java import QUICK_TO_START
from millrace.kafka.java_clients import java_login, java_properties, properties_text

_LIMIT_S = 180.0
_TIMEOUTS = {"request.timeout.ms": "60000", "default.api.timeout.ms": "120000"}


def ask_broker_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    bootstrap_servers: str,
    settings: Mapping[str, str] | None = None,
    asking_for: str,
) -> str:
    """Runs a command-line tool of the broker and returns what it prints; takes one or two seconds.

    Args:
        tool: class of the tool.
        arguments: its arguments; ``{connection}`` among them stands for those that say which broker, and how to log in.
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user, as librdkafka calls them.
        asking_for: what is asked for, for error messages.

    Raises:
        OperationError: the tool failed or took too long.
        PreflightError: there is no Java, or the broker's jars cannot be had.
        ConfigurationError: a Java client cannot log in so.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.write(properties_text({**_TIMEOUTS, **java_login(settings or {})}))
        properties.flush()
        connection = ["--bootstrap-server", bootstrap_servers, "--command-config", properties.name]
        filled = [part for given in arguments for part in (connection if given == "{connection}" else [given])]
        command = [*broker_java(resolve_jars(BROKER_JARS)), "-Xmx128m", *QUICK_TO_START]
        command += [*java_properties(settings or {}), tool, *filled]
        try:
            result = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise OperationError(
                f"{bootstrap_servers} did not tell {asking_for} within {_LIMIT_S:g} s.",
                remedy="see whether the broker is well",
            ) from error
    if result.returncode:
        raise OperationError(
            f"{bootstrap_servers} does not tell {asking_for}: "
            f"{(result.stderr or result.stdout).decode(errors='replace').strip()[-500:]}",
            remedy="grant DESCRIBE on the cluster and on transactional ids, or see the broker's log",
        )
    return result.stdout.decode(errors="replace")
