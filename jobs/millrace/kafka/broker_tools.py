"""The broker's own command-line tools, for what the client library cannot ask: one Java process each."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.errors import OperationError
from millrace.kafka.jars import BROKER_JARS, class_path, resolve_jars
from millrace.kafka.java import find_java

_LIMIT_S = 180.0
_TIMEOUTS = {"request.timeout.ms": "20000", "default.api.timeout.ms": "40000"}
_SAME_NAMES = ("security.protocol", "ssl.endpoint.identification.algorithm", "ssl.keystore.location", "client.id")
_PLAIN_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def ask_broker_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    bootstrap_servers: str,
    settings: Mapping[str, str] | None = None,
    asking_for: str,
) -> str:
    """What a tool prints; takes one or two seconds.

    Args:
        tool: class of the tool.
        arguments: its arguments; ``{connection}`` among them stands for those that say which broker, and how to log in.
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user, as librdkafka calls them.
        asking_for: what is asked for, for error messages.

    Raises:
        OperationError: the tool failed or took too long.
        PreflightError: there is no Java, or the broker's jars cannot be had.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        connecting = {**_TIMEOUTS, **java_client_settings(settings or {})}
        properties.writelines(f"{key}={value}\n" for key, value in connecting.items())
        properties.flush()
        connection = ["--bootstrap-server", bootstrap_servers, "--command-config", properties.name]
        filled = [part for given in arguments for part in (connection if given == "{connection}" else [given])]
        command = [str(find_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", class_path(resolve_jars(BROKER_JARS)), tool, *filled]
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


def java_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What a Java client needs to connect as librdkafka does with these settings.

    Raises:
        OperationError: a way to log in that has no translation here.
    """
    java = {name: settings[name] for name in _SAME_NAMES if name in settings}
    if "ssl.ca.location" in settings:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(Path(settings["ssl.ca.location"]))}
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if mechanism is not None:
        if mechanism not in _PLAIN_LOGINS:
            raise OperationError(
                f"The broker's tools cannot log in with SASL {mechanism}.",
                remedy=f"give the application's admin.sasl.mechanism one of {', '.join(_PLAIN_LOGINS)}",
            )
        user, password = _quoted(settings, "sasl.username"), _quoted(settings, "sasl.password")
        java |= {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_PLAIN_LOGINS[mechanism]} required username={user} password={password};",
        }
    return java


def _quoted(settings: Mapping[str, str], name: str) -> str:
    text = settings.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
