"""A broker with listeners that take SCRAM and OAuth over TLS, and nobody's requests that no ACL allows.

Its other listener is the test's own: plain, and its anonymous users may do everything.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from millrace.embedded.broker import HOST, EmbeddedBroker, free_ports
from millrace.kafka.groups import fence_transactional_ids
from tests.application import wait_until
from tests.broker import BROKER_PROPERTIES
from tests.identity_provider import AUDIENCE, IdentityProvider

_LIMIT_S = 30


class SecureBroker:
    """The broker, its certificates and its users.

    Args:
        directory: where everything goes.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "authority.pem"
        self.other_authority = directory / "other-authority.pem"
        self.passwords = directory / "passwords"
        _make_certificates(self.authority, directory / "broker.pem")
        _make_certificates(self.other_authority, directory / "other.pem")
        port, oauth_port = free_ports(2)
        self.bootstrap_servers, self.oauth_servers = f"{HOST}:{port}", f"{HOST}:{oauth_port}"
        self.identity_provider = IdentityProvider({})
        self._broker = EmbeddedBroker(directory / "broker", properties=BROKER_PROPERTIES)
        plain = f"PLAINTEXT://{self._broker.bootstrap_servers},SECURE://{self.bootstrap_servers}"
        plain += f",OAUTH://{self.oauth_servers}"
        oauth, package = "listener.name.oauth.oauthbearer", "org.apache.kafka.common.security.oauthbearer"
        self._broker.properties |= {
            "listeners": f"{plain},CONTROLLER://{self._broker.controller}",
            "advertised.listeners": plain,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,OAUTH:SASL_SSL",
            "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(directory / "broker.pem"),
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.ssl.keystore.type": "PEM",
            "listener.name.oauth.ssl.keystore.location": str(directory / "broker.pem"),
            f"{oauth}.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{oauth}.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
            f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": self.identity_provider.keys_endpoint,
            f"{oauth}.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{oauth}.sasl.oauthbearer.expected.issuer": self.identity_provider.address,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    @property
    def plain_servers(self) -> str:
        """Where tests themselves send and read."""
        return self._broker.bootstrap_servers

    def start(self) -> None:
        """Returns when it answers, and its coordinators have loaded what they know of transactions."""
        self.identity_provider.__enter__()
        # It takes keys only from where a property of the system allows it; Java reads this variable at its start.
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity_provider.keys_endpoint}"
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("JAVA_TOOL_OPTIONS", allowed)
            self._broker.start()
        fence_transactional_ids(self.plain_servers, [f"warm-up-{number}" for number in range(12)])
        self._admin = AdminClient({"bootstrap.servers": self.plain_servers})

    def stop(self) -> None:
        """Ends it."""
        self._broker.stop()
        self.identity_provider.__exit__(None, None, None)

    def add_user(self, name: str, password: str) -> dict[str, str]:
        """Makes a user, who may do nothing yet, the password in a file; what a specification needs to log in so."""
        credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, credentials, password.encode())
        self._admin.alter_user_scram_credentials([change])[name].result(_LIMIT_S)
        self._keep(name, password)
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": f"${{dir:{self.passwords}:{name}}}",
        }

    def add_client(self, name: str, secret: str) -> dict[str, str]:
        """Makes a client of the identity provider, who may do nothing yet, the secret in a file; what a specification
        needs to log in so.
        """
        self.identity_provider.clients[name] = secret
        self._keep(name, secret)
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": name,
            "sasl.oauthbearer.client.secret": f"${{dir:{self.passwords}:{name}}}",
            "sasl.oauthbearer.scope": "streams",
            "sasl.oauthbearer.token.endpoint.url": self.identity_provider.token_endpoint,
        }

    def _keep(self, name: str, secret: str) -> None:
        self.passwords.mkdir(exist_ok=True)
        (self.passwords / name).write_text(f"{secret}\n")

    def grant(self, bindings: Iterable[AclBinding]) -> None:
        """Adds ACLs."""
        for future in self._admin.create_acls(list(bindings)).values():
            future.result(_LIMIT_S)

    def revoke(self, bindings: Iterable[AclBinding]) -> None:
        """Removes ACLs; returns when the broker does not know them any more."""
        filters = [
            AclBindingFilter(
                each.restype,
                each.name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in bindings
        ]
        for future in self._admin.delete_acls(filters).values():
            future.result(_LIMIT_S)
        wait_until(
            lambda: not any(self._admin.describe_acls(each).result(_LIMIT_S) for each in filters),
            timeout_s=_LIMIT_S,
            what="ACLs removed",
        )

    def denials(self, user: str) -> list[str]:
        """What the authorizer wrote of requests of a user that it denied."""
        lines = self._broker.log_file.read_text(errors="replace").splitlines()
        return [line for line in lines if f"Principal = User:{user} is Denied" in line]


def _make_certificates(authority: Path, server: Path) -> None:
    """An authority, and a certificate of this host by it with its key, both PEM."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, authority.stem)])
    signed = (
        _certificate(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    host = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    certificate = (
        _certificate(host, name, key.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    authority.write_bytes(signed.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    server.write_bytes(private + certificate.public_bytes(pem))


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
