"""The control plane of a running driver: its server, and the files beside ``control.json`` that describe it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from millrace.driver.control_file import ControlFile, new_token, read_token
from millrace.driver.driver_options import DriverSettings
from millrace.driver.ending import ENDED_FILE
from millrace.driver.server import ControlServer, ControlSurface
from millrace.driver.status import DriverIdentity


@contextlib.contextmanager
def serving(surface: ControlSurface, settings: DriverSettings, on_address: Callable[[str], None]) -> Iterator[None]:
    """Serves while the body runs, and removes the file in which an earlier driver reported its end.

    Args:
        surface: what to show and do.
        settings: where it listens, and where its files go.
        on_address: called with the address of the server.

    Raises:
        ConfigurationError: the server did not come up, or the token cannot be read.
    """
    token_file = settings.token_file or settings.control_file.with_name("control.token")
    token = read_token(token_file) if settings.token_file else new_token(token_file)
    server = ControlServer(settings.server_address, token, surface)
    server.start()
    identity = DriverIdentity.of_this_process()
    control_file = ControlFile(
        pid=identity.pid, start_time=identity.start_time, address=server.address, token_file=str(token_file)
    )
    try:
        on_address(server.address)
        control_file.write(settings.control_file)
        settings.control_file.with_name(ENDED_FILE).unlink(missing_ok=True)
        yield
    finally:
        control_file.remove_own(settings.control_file)
        server.stop()
