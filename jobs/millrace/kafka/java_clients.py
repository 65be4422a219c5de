"""The settings of librdkafka's clients, translated for Kafka's Java clients: Spark's Kafka source, the broker's tools.

A specification has librdkafka's names only. What differs in Java is the login: it goes into one line of JAAS, and
certificates are read as PEM from files or from the settings themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from millrace.config import login_settings
from millrace.errors import ConfigurationError
from millrace.kafka.login import CLIENT_ID, CLIENT_SECRET, OAUTH, OIDC_METHOD, TOKEN_ENDPOINT, check_login, mechanism

_SAME_NAMES = ("security.protocol", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SASL = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_OAUTH_OPTIONS = {CLIENT_ID: "clientId", CLIENT_SECRET: "clientSecret", "sasl.oauthbearer.scope": "scope"}
_OAUTH_EXTENSIONS = "sasl.oauthbearer.extensions"
_OAUTH_TRUSTED = {
    "https.ca.location": "ssl.truststore.location",
    "https.ca.pem": "ssl.truststore.certificates",
}
"""Certificates to trust where a token is requested; in Java login options, since the broker may need others."""

_OAUTH = frozenset({OIDC_METHOD, TOKEN_ENDPOINT, _OAUTH_EXTENSIONS, *_OAUTH_OPTIONS, *_OAUTH_TRUSTED})
_TRUSTED = {"ssl.ca.location": "ssl.truststore.location", "ssl.ca.pem": "ssl.truststore.certificates"}
_OWN_FILES = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_OWN_TEXTS = {"ssl.certificate.pem": "ssl.keystore.certificate.chain", "ssl.key.pem": "ssl.keystore.key"}
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_TRANSLATED = frozenset({*_SAME_NAMES, *_SASL, *_OAUTH, *_TRUSTED, *_OWN_FILES, *_OWN_TEXTS, _HOST_CHECK})
_KEY_FORMATS = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


def java_consumer(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a Java consumer: the login translated, the others unchanged.

    Args:
        settings: of a consumer, as librdkafka calls them.

    Raises:
        ConfigurationError: see :func:`java_login`.
    """
    login = login_settings(settings)
    return {**{key: value for key, value in settings.items() if key not in login}, **java_login(login)}


def java_login(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which a Java client logs in as librdkafka does.

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
    """Returns the content of a properties file, as Java programs read it."""
    # Where a value needs an escape, it is JSON's.
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())


def java_properties(settings: Mapping[str, str]) -> list[str]:
    """Returns the system properties, as arguments of ``java``, that a client needs to log in.

    Kafka's Java clients ask for tokens only where a property of the system allows it (KIP-1139, CVE-2025-27817).

    Args:
        settings: of a client, as librdkafka calls them.
    """
    if mechanism(settings) != OAUTH:
        return []
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={settings[TOKEN_ENDPOINT]}"]


def _sasl(login: Mapping[str, str]) -> dict[str, str]:
    asked = mechanism(login)
    if asked is None:
        return {}
    check_login(login)
    if asked == OAUTH:
        return _oauth(login)
    if asked not in _LOGIN_MODULES:
        raise ConfigurationError(
            f"Spark's Kafka source and the broker's tools cannot log in with SASL {asked}.",
            remedy=f"set sasl.mechanism to one of {', '.join((*_LOGIN_MODULES, OAUTH))}",
        )
    options = {"username": login.get("sasl.username", ""), "password": login.get("sasl.password", "")}
    return {"sasl.mechanism": asked, "sasl.jaas.config": _jaas(_LOGIN_MODULES[asked], options)}


def _oauth(login: Mapping[str, str]) -> dict[str, str]:
    """Returns client credentials as Java expects them (KIP-768): the endpoint, and the rest as login options."""
    options = {java: login[name] for name, java in _OAUTH_OPTIONS.items() if name in login}
    for pair in filter(None, login.get(_OAUTH_EXTENSIONS, "").split(",")):
        name, _, value = pair.partition("=")
        options[f"extension_{name.strip()}"] = value.strip()
    for name, java in _OAUTH_TRUSTED.items():
        if name in login:
            options |= {"ssl.truststore.type": "PEM", java: login[name]}
    return {
        "sasl.mechanism": OAUTH,
        TOKEN_ENDPOINT: login[TOKEN_ENDPOINT],
        "sasl.login.callback.handler.class": f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": _jaas(f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule", options),
    }


def _jaas(module: str, options: Mapping[str, str]) -> str:
    given = " ".join(f"{name}={_quoted(text)}" for name, text in options.items())
    return f"{module} required {given};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigurationError(
            f"{name}, {path}, cannot be read: {error.strerror}.", remedy=f"correct {name}"
        ) from error
