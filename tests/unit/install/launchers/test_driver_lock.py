"""One driver of an application on a host: the lock that says so."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.launchers import base
from millrace.install.launchers.base import Launch, lives, start_detached
from millrace.install.launchers.session import RUN_DIRECTORY_VARIABLE, find_driver
from millrace.processes import ProcessIdentity

NAME = "payments"


@pytest.fixture
def directory(home: Home) -> ApplicationDirectory:
    directory = home.application(NAME)
    directory.path.mkdir(parents=True)
    directory.driver_lock.touch()
    return directory


def sleeper(directory: ApplicationDirectory) -> Launch:
    return Launch(
        command=[sys.executable, "-c", "import signal; signal.pause()"],
        environment={RUN_DIRECTORY_VARIABLE: str(directory.path)},
        log=directory.log,
    )


@contextmanager
def held(path: Path, *, for_s: float = 60) -> Iterator[None]:
    """Hold the lock as a process does that ends and cannot be found any more."""
    lock = os.open(path, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    timer = threading.Timer(for_s, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        os.close(lock)


def end(driver: ProcessIdentity) -> None:
    driver.send_signal(signal.SIGKILL)
    assert driver.wait_until_gone(10)
    os.waitpid(driver.pid, 0)


def test_what_ends_and_cannot_be_found_any_more_is_waited_for(directory: ApplicationDirectory) -> None:
    with held(directory.driver_lock, for_s=0.3):
        assert not lives(directory)
    with held(directory.driver_lock, for_s=0.3):
        driver = start_detached(sleeper(directory), directory).process
    assert lives(directory)
    assert find_driver(directory) == driver
    with pytest.raises(OperationError, match="lives already"):
        start_detached(sleeper(directory), directory)
    end(driver)
    assert not lives(directory)


def test_a_stranger_that_keeps_the_lock_is_named(
    directory: ApplicationDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_ENDING_LIMIT_S", 0.2)
    with held(directory.driver_lock):
        with pytest.raises(OperationError, match="no driver of payments can be found"):
            base.HostLauncher().find(directory)
        with pytest.raises(OperationError, match="lives already"):
            start_detached(sleeper(directory), directory)
