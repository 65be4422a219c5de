from __future__ import annotations

from pathlib import Path

import pytest

from millrace.config import StreamsConfig
from millrace.errors import ConfigurationError
from millrace.kafka.clients import base_settings
from millrace.kafka.java_clients import java_consumer, java_login, java_properties

LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": 'a"b\\c',
    "ssl.ca.location": "/ca.pem",
}
PKCS8 = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"


def config(**settings: str) -> StreamsConfig:
    return StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "b:1", **settings})


def test_a_login_is_one_line_of_jaas_and_authorities_are_a_trust_store() -> None:
    assert java_login({**LOGIN, "client.id": "x"}) == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
    }


def test_other_settings_of_a_consumer_stay_as_they_are() -> None:
    java = java_consumer({"security.protocol": "SSL", "fetch.min.bytes": "2"})
    assert java == {"security.protocol": "SSL", "fetch.min.bytes": "2"}


def test_a_certificate_of_its_own_goes_into_the_settings(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text("chain")
    key.write_text(PKCS8)
    login = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key), "ssl.key.password": "p"}
    wanted = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": PKCS8,
        "ssl.key.password": "p",
    }
    assert java_login(login) == wanted
    assert java_login({"ssl.certificate.pem": "chain", "ssl.key.pem": PKCS8, "ssl.key.password": "p"}) == wanted


def test_a_key_store_is_what_librdkafka_takes() -> None:
    login = {"ssl.keystore.location": "/store.p12", "ssl.keystore.password": "p"}
    assert java_login(login) == {**login, "ssl.keystore.type": "PKCS12"}


@pytest.mark.parametrize(("given", "java"), [("none", ""), ("https", "https")])
def test_names_of_hosts_are_checked_unless_that_is_switched_off(given: str, java: str) -> None:
    name = "ssl.endpoint.identification.algorithm"
    assert java_login({name: given}) == {name: java}


@pytest.mark.parametrize(
    ("login", "named"),
    [
        ({"sasl.mechanism": "EXTERNAL"}, "EXTERNAL"),
        ({"sasl.oauthbearer.grant.type": "jwt"}, r"sasl\.oauthbearer\.grant\.type"),
        ({"ssl.key.location": "/none.pem"}, r"/none\.pem"),
        ({"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, "PKCS #8"),
    ],
)
def test_what_has_no_translation_is_refused_by_name(login: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        java_login(login)


def test_a_login_is_of_every_client_unless_one_has_its_own() -> None:
    common = config(**LOGIN, **{"producer.sasl.username": "writer", "topic.retention.ms": "1"})
    assert common.client_settings("admin.") == LOGIN
    assert common.client_settings("consumer.") == LOGIN
    assert common.client_settings("producer.") == {**LOGIN, "sasl.username": "writer"}
    assert common.client_settings("topic.") == {"retention.ms": "1"}


OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "streams",
    "sasl.oauthbearer.client.secret": 'a"b',
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
}


def test_client_credentials_are_options_of_the_login_and_their_endpoint_is_allowed() -> None:
    """Case L01."""
    assert java_consumer(OAUTH) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="streams" clientSecret="a\\"b" scope="kafka";',
    }
    assert java_properties(OAUTH) == ["-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://idp.example/token"]
    assert java_properties(LOGIN) == []


def test_extensions_and_the_authority_of_the_token_endpoint_are_options_of_the_login_too() -> None:
    """Confluent Cloud names the cluster in an extension."""
    more = {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=p", "https.ca.pem": "-----BEGIN\nCERT"}
    java = java_login({**OAUTH, **more})
    assert java["sasl.jaas.config"].endswith(
        'extension_logicalCluster="lkc-1" extension_pool="p" ssl.truststore.type="PEM" '
        'ssl.truststore.certificates="-----BEGIN\\nCERT";'
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method is 'default'"),
        ({**OAUTH, "sasl.oauthbearer.client.secret": ""}, "needs sasl.oauthbearer.client.secret"),
        ({"sasl.mechanism": "GSSAPI"}, "built without Kerberos"),
    ],
)
def test_a_login_that_no_client_could_do_is_refused_before_there_is_one(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        java_login(settings)
    with pytest.raises(ConfigurationError, match=reason):
        base_settings("broker:1", settings)
