"""Ports for what listens later: an outgoing connection must not have taken one by then."""

from __future__ import annotations

import socket

import pytest

from millrace.embedded import broker
from millrace.embedded.broker import HOST, free_ports
from millrace.errors import OperationError


def test_they_are_distinct_and_none_that_outgoing_connections_get() -> None:
    ports = free_ports(200)
    assert len(set(ports)) == 200
    assert max(ports) < 32_768, "Linux's net.ipv4.ip_local_port_range begins there, others higher"


def test_one_that_is_listened_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, free_ports(1)[0])) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(broker, "_LISTENING_PORTS", range(port - 1, port + 2))
        assert port not in free_ports(2)
        with pytest.raises(OperationError, match="only 2 are free"):
            free_ports(3)


def test_they_are_free_afterwards() -> None:
    for port in free_ports(20):
        socket.create_server((HOST, port)).close()
