"""Sizes of logs. The client library cannot ask for them, so the broker's own tool does (``kafka-log-dirs.sh``)."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import orjson

from millrace.errors import OperationError
from millrace.kafka.jars import BROKER_JARS, class_path, resolve_jars
from millrace.kafka.java import find_java
from millrace.kafka.offsets import Place

_TOOL = "org.apache.kafka.tools.LogDirsCommand"
_LIMIT_S = 180.0
_SAME_NAMES = ("security.protocol", "ssl.endpoint.identification.algorithm", "ssl.keystore.location", "client.id")
_PLAIN_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def log_bytes(
    bootstrap_servers: str, topics: Collection[str], *, settings: Mapping[str, str] | None = None
) -> dict[Place, int]:
    """Bytes of the log of each partition, that of its largest replica; takes one or two seconds of a Java process.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        topics: names of the topics; those that do not exist are left out.
        settings: client settings of the user, as librdkafka calls them.

    Raises:
        OperationError: the tool failed.
        PreflightError: there is no Java, or the broker's jars cannot be had.
    """
    if not topics:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.writelines(f"{key}={value}\n" for key, value in java_client_settings(settings or {}).items())
        properties.flush()
        command = [
            str(find_java()),
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path(resolve_jars(BROKER_JARS)),
        ]
        command += [_TOOL, "--describe", "--bootstrap-server", bootstrap_servers, "--topic-list", ",".join(topics)]
        command += ["--command-config", properties.name]
        try:
            result = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise OperationError(
                f"{bootstrap_servers} did not tell the sizes of logs within {_LIMIT_S:g} s.",
                remedy="see whether the broker is well",
            ) from error
    documents = [line for line in result.stdout.splitlines() if line.startswith(b"{")]
    if result.returncode or not documents:
        raise OperationError(
            f"{bootstrap_servers} does not tell the sizes of logs: "
            f"{(result.stderr or result.stdout).decode(errors='replace').strip()[-500:]}",
            remedy="grant DESCRIBE on the cluster, or see the broker's log",
        )
    found: dict[Place, int] = {}
    for broker in orjson.loads(documents[-1])["brokers"]:
        for directory in broker["logDirs"]:
            for entry in directory["partitions"]:
                topic, _, number = entry["partition"].rpartition("-")
                if not entry.get("isFuture"):
                    found[topic, int(number)] = max(found.get((topic, int(number)), 0), entry["size"])
    return found


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
                f"Sizes of logs cannot be asked for with SASL {mechanism}.",
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
