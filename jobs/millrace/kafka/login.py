"""The check of a login before a client is made: the client library's own errors name options of its build."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from millrace.errors import ConfigurationError

OAUTH, KERBEROS = "OAUTHBEARER", "GSSAPI"
OIDC_METHOD = "sasl.oauthbearer.method"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
_NEEDED = (TOKEN_ENDPOINT, CLIENT_ID, CLIENT_SECRET)


def mechanism(settings: Mapping[str, str]) -> str | None:
    """Returns the SASL mechanism in the settings of a client; ``None`` where it logs in without SASL."""
    return settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))


def check_login(settings: Mapping[str, str]) -> None:
    """Refuses login settings that the client library cannot use.

    Args:
        settings: of a client, as librdkafka calls them.

    Raises:
        ConfigurationError: OAUTHBEARER without the token endpoint and the client's credentials (KIP-768), since tokens
            are asked for by OIDC client credentials only; or Kerberos, where the client library was built without it.
    """
    asked = mechanism(settings)
    if asked == OAUTH:
        method = settings.get(OIDC_METHOD, "default")
        if method.lower() != "oidc":
            raise ConfigurationError(
                f"SASL {OAUTH} needs a token, and {OIDC_METHOD} is {method!r}.",
                remedy=f"set {OIDC_METHOD}=oidc, with {', '.join(_NEEDED)}",
            )
        if missing := [name for name in _NEEDED if not settings.get(name)]:
            raise ConfigurationError(f"SASL {OAUTH} needs {', '.join(missing)}.", remedy=f"set {', '.join(missing)}")
    if asked == KERBEROS and not has_kerberos():
        raise ConfigurationError(
            "The installed confluent-kafka was built without Kerberos (SASL GSSAPI).",
            remedy="build it against a librdkafka with libsasl2 (pip install --no-binary confluent-kafka "
            "confluent-kafka), or log in by SCRAM, a certificate or OAuth",
        )


@cache
def has_kerberos() -> bool:
    """Returns whether the client library can log in with Kerberos."""
    try:
        # The library refuses a list of features that it does not have all of.
        AdminClient({"builtin.features": "sasl_gssapi", "bootstrap.servers": "127.0.0.1:9"})
    except KafkaException:
        return False
    return True
