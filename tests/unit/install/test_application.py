"""The handle of an application: it holds names, and reads what they stand for at the time of use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import DesiredState, JobRecord, write_record
from millrace.install.spec import load_spec_file
from millrace.install.which_spec import Use

WriteSpec = Callable[..., Path]


def test_it_says_what_was_launched_and_what_its_file_says(home: Home, write_spec: WriteSpec) -> None:
    application = Application(home, "payments")
    launched = load_spec_file(write_spec(config={"bootstrap.servers": "launched:1"}))
    launched.save(application.directory.spec)
    write_spec(config={"bootstrap.servers": "edited:1"})
    assert application.launched.file == launched
    assert application.desired.spec.config == {"bootstrap.servers": "edited:1"}
    assert application.following.spec.config == {"bootstrap.servers": "edited:1"}
    assert application.config.bootstrap_servers == "launched:1"
    assert application.admin().bootstrap_servers == "launched:1"
    assert application.difference(Use.RUNNING) == application.launched.note != ""


def test_each_look_reads_the_files_again(home: Home, write_spec: WriteSpec) -> None:
    application = Application(home, "payments")
    assert application.record is None
    with pytest.raises(ConfigurationError, match=r"payments\.yaml"):
        _ = application.desired
    assert application.difference(Use.DEPLOYMENT) == ""
    write_spec(description="written later")
    assert application.desired.spec.description == "written later"
    record = JobRecord(application="payments", desired=DesiredState.STOPPED)
    write_record(application.directory, record)
    assert application.record == record


def test_two_handles_of_one_application_are_equal_and_print_as_its_name(home: Home) -> None:
    assert Application(home, "payments") == Application(home, "payments") != Application(home, "orders")
    assert f"{Application(home, 'payments')}" == "payments"
