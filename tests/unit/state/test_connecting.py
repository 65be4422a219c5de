"""Whoever reads changelogs asks for their ends over the same connection."""

from __future__ import annotations

from millrace.state.changelog_reader import admin_beside_consumer


def test_the_administrator_beside_a_consumer_logs_in_as_it_does_and_takes_nothing_else_of_it() -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": "secret",
    }
    admin = admin_beside_consumer("127.0.0.1:1", {**login, "fetch.min.bytes": "7"})
    assert dict(admin.settings) == login
