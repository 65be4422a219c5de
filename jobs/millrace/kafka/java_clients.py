"""Settings of librdkafka's clients as Kafka's Java clients want them: Spark's Kafka source, and the broker's tools.

A specification has librdkafka's names only. What differs in Java is the login: it goes into one line of JAAS, and
certificates are read as PEM from files or from the settings themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from millrace.config import login_settings
from millrace.errors import ConfigurationError

_SAME_NAMES = ("security.protocol", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SASL = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
_TRUSTED = {"ssl.ca.location": "ssl.truststore.location", "ssl.ca.pem": "ssl.truststore.certificates"}
_OWN_FILES = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_OWN_TEXTS = {"ssl.certificate.pem": "ssl.keystore.certificate.chain", "ssl.key.pem": "ssl.keystore.key"}
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_TRANSLATED = frozenset({*_SAME_NAMES, *_SASL, *_TRUSTED, *_OWN_FILES, *_OWN_TEXTS, _HOST_CHECK})
_KEY_FORMATS = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


def java_consumer(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Java consumer: the login translated, the others as they are.

    Args:
        settings: of a consumer, as librdkafka calls them.

    Raises:
        ConfigurationError: see :func:`java_login`.
    """
    login = login_settings(settings)
    return {**{key: value for key, value in settings.items() if key not in login}, **java_login(login)}


def java_login(settings: Mapping[str, str]) -> dict[str, str]:
    """What a Java client needs to log in as librdkafka does.

    Args:
        settings: of a client, as librdkafka calls them; those that have nothing to do with the login are left out.

    Raises:
        ConfigurationError: a setting has no translation, or a file of certificates cannot be read.
    """
    login = login_settings(settings)
    if unknown := sorted(login.keys() - _TRANSLATED):
        raise ConfigurationError(
            f"Spark's Kafka source and the broker's tools, Java clients, have no setting for {', '.join(unknown)}.",
            remedy=f"use {', '.join(sorted(_TRANSLATED))} only",
        )
    java = {name: login[name] for name in _SAME_NAMES if name in login}
    if _HOST_CHECK in login:
        java[_HOST_CHECK] = "" if login[_HOST_CHECK] == "none" else login[_HOST_CHECK]
    if "ssl.keystore.location" in login:
        java["ssl.keystore.type"] = "PKCS12"
    for name, translated in _TRUSTED.items():
        if name in login:
            java |= {"ssl.truststore.type": "PEM", translated: login[name]}
    for name, translated in (*_OWN_FILES.items(), *_OWN_TEXTS.items()):
        if name in login:
            text = login[name] if name in _OWN_TEXTS else _read(name, login[name])
            if translated == "ssl.keystore.key" and not any(form in text for form in _KEY_FORMATS):
                raise ConfigurationError(
                    f"The key of {name} is not PKCS #8, which Java clients need.",
                    remedy="convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
                )
            java |= {"ssl.keystore.type": "PEM", translated: text}
    return java | _sasl(login)


def properties_text(settings: Mapping[str, str]) -> str:
    """The content of a properties file, which Java programs read."""
    # Where a value needs an escape, it is JSON's.
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())


def _sasl(login: Mapping[str, str]) -> dict[str, str]:
    mechanism = login.get("sasl.mechanism", login.get("sasl.mechanisms"))
    if mechanism is None:
        return {}
    if mechanism not in _LOGIN_MODULES:
        raise ConfigurationError(
            f"Spark's Kafka source and the broker's tools cannot log in with SASL {mechanism}.",
            remedy=f"set sasl.mechanism to one of {', '.join(_LOGIN_MODULES)}",
        )
    user, password = _quoted(login, "sasl.username"), _quoted(login, "sasl.password")
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};",
    }


def _quoted(login: Mapping[str, str], name: str) -> str:
    text = login.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigurationError(
            f"{name}, {path}, cannot be read: {error.strerror}.", remedy=f"correct {name}"
        ) from error
