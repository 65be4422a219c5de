from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError, OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.spec import RunState, load_spec
from millrace.launch import observe
from millrace.operations.suspend import set_run_state, suspend
from millrace.supervise import deploy

NAME = "payments"


def test_a_suspended_application_is_stopped_and_not_deployed_before_its_file_says_running(
    home: Home, write_spec: Callable[..., Path]
) -> None:
    write_spec()
    deploy(Application(home, NAME))
    outcome = suspend(Application(home, NAME), reason="a holiday")
    assert outcome.action == "stop"
    assert observe(Application(home, NAME)).verdict == "stopped"
    with pytest.raises(OperationError, match="says suspended"):
        deploy(Application(home, NAME))
    set_run_state(Application(home, NAME), RunState.RUNNING, reason="back")
    assert deploy(Application(home, NAME)).action == "start"


def test_a_dry_run_of_a_suspension_writes_nothing(home: Home, write_spec: Callable[..., Path]) -> None:
    path = write_spec()
    before = path.read_text()
    outcome = suspend(Application(home, NAME), reason="a holiday", dry_run=True)
    assert f"write `state: suspended` into {path}" in outcome.steps
    assert path.read_text() == before


def test_comments_and_the_rest_of_the_file_stay(home: Home, write_spec: Callable[..., Path]) -> None:
    path = write_spec()
    text = f"# Ours.\n{path.read_text()}# It runs.\nstate: running  # since spring\nupgrade_mode: last-state\n"
    path.write_text(text)
    set_run_state(Application(home, NAME), RunState.SUSPENDED, reason="a holiday")
    assert path.read_text() == text.replace("state: running  # since spring", "state: suspended", 1)
    assert load_spec(path).state is RunState.SUSPENDED


def test_what_has_no_specification_is_not_suspended(home: Home) -> None:
    with pytest.raises(ConfigurationError):
        suspend(Application(home, NAME), reason="a holiday")
