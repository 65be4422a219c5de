"""What HTTP clients trust."""

from __future__ import annotations

import ssl

from millrace.tls import tls_context


def test_servers_are_verified_by_name_and_authority_and_the_certificates_are_read_once() -> None:
    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.cert_store_stats()["x509_ca"] > 50
    assert tls_context() is context
