"""An identity provider on this host: tokens for client credentials (OIDC), and the keys that they are signed with."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs
from uuid import uuid4

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"


class IdentityProvider:
    """Gives a token to each client whose secret it knows.

    Args:
        clients: secrets by client id; the client id is the token's subject, which brokers take for the user.
        lifetime_s: how long a token is valid, seconds.
    """

    def __init__(self, clients: dict[str, str], *, lifetime_s: int = 300) -> None:
        self.clients = clients
        self.lifetime_s = lifetime_s
        self.scopes: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="identity-provider", daemon=True)

    def __enter__(self) -> IdentityProvider:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def token_endpoint(self) -> str:
        """Where clients ask for tokens."""
        return f"{self.address}/token"

    @property
    def keys_endpoint(self) -> str:
        """Where brokers ask for its keys (JWKS)."""
        return f"{self.address}/keys"

    def keys(self) -> dict[str, object]:
        """Its public key as a key set."""
        public = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": _number(public.n), "e": _number(public.e)}
        return {"keys": [key]}

    def token(self, client: str, scope: str) -> str:
        """A signed token."""
        now = int(time.time())
        claims = {
            "iss": self.address,
            "sub": client,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self.lifetime_s,
            "scope": scope,
            "jti": uuid4().hex,
        }
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "1"}, claims]
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"


def _handler(provider: IdentityProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, provider.keys())

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            scheme, _, credentials = self.headers.get("Authorization", "").partition(" ")
            client, _, secret = base64.b64decode(credentials).decode().partition(":")
            assert scheme == "Basic"
            if form["grant_type"] != ["client_credentials"] or provider.clients.get(client) != secret:
                self._answer(401, {"error": "invalid_client"})
                return
            scope = form.get("scope", [""])[0]
            provider.scopes.append(scope)
            token = provider.token(client, scope)
            self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": provider.lifetime_s})

        def _answer(self, code: int, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
            """Nothing is written for a request."""

    return Handler


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))
