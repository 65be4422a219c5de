"""One secure broker for all files of this directory that a worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.secure_broker import SecureBroker


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker with listeners for SCRAM and OAuth over TLS and an authorizer. Use names of your own."""
    broker = SecureBroker(tmp_path_factory.mktemp("secure"))
    broker.start()
    yield broker
    broker.stop()
