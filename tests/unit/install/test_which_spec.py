"""Which of an application's two specifications counts, and what is said where they differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import DesiredState, JobRecord, write_record
from millrace.install.spec import load_spec_file
from millrace.install.which_spec import Use, changed_keys
from millrace.launch import observe

WriteSpec = Callable[..., Path]
NAME = "payments"


@pytest.fixture
def launched(home: Home, write_spec: WriteSpec) -> Home:
    """An application that was launched with one specification; its file says something else now."""
    file = load_spec_file(write_spec(description="launched", topics=[]))
    file.save(home.application(NAME).spec)
    write_record(home.application(NAME), JobRecord(application=NAME, desired=DesiredState.STOPPED, spec_hash=file.hash))
    write_spec(description="edited", topics=[{"name": "payments"}])
    return home


@pytest.mark.parametrize(
    ("use", "description"),
    [(Use.RUNNING, "launched"), (Use.NEXT_START, "edited"), (Use.DEPLOYMENT, "edited")],
)
def test_what_was_launched_counts_for_what_runs_and_the_file_for_the_next_start(
    launched: Home, use: Use, description: str
) -> None:
    chosen = Application(launched, NAME).specification(use)
    assert chosen.spec.description == description
    path = launched.spec_path(NAME)
    goes_by = "what was launched" if use is Use.RUNNING else "the file"
    assert chosen.note == (
        f"{path} differs from what payments was launched with (description, topics): this goes by {goes_by}"
    )
    assert Application(launched, NAME).difference(use) == chosen.note


def test_without_a_launch_the_file_counts_and_nothing_differs(home: Home, write_spec: WriteSpec) -> None:
    write_spec(description="never launched")
    for use in Use:
        chosen = Application(home, NAME).specification(use)
        assert (chosen.spec.description, chosen.note) == ("never launched", "")


def test_the_same_document_in_another_order_does_not_differ(launched: Home) -> None:
    launched.spec_path(NAME).write_text("# a comment\n" + launched.application(NAME).spec.read_text())
    assert Application(launched, NAME).launched.note == ""


def test_a_wrong_file_counts_for_a_deployment_only(launched: Home) -> None:
    launched.spec_path(NAME).write_bytes("description: Aufträge".encode("latin-1"))
    assert Application(launched, NAME).launched.spec.description == "launched"
    following = Application(launched, NAME).following
    assert following.spec.description == "launched"
    assert "is not UTF-8" in following.problem
    assert "is not UTF-8" in following.note
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        Application(launched, NAME).specification(Use.DEPLOYMENT)


def test_what_was_rolled_back_does_not_start_next(launched: Home) -> None:
    rejected = load_spec_file(launched.spec_path(NAME)).hash
    write_record(
        launched.application(NAME), JobRecord(application=NAME, desired=DesiredState.RUNNING, rejected_hash=rejected)
    )
    following = Application(launched, NAME).following
    assert following.spec.description == "launched"
    assert "was rolled back; change it, or deploy it again" in following.problem
    assert Application(launched, NAME).desired.spec.description == "edited"


def test_a_launched_specification_that_cannot_be_read_is_not_replaced_by_the_file(launched: Home) -> None:
    launched.application(NAME).spec.write_text("name: [")
    with pytest.raises(ConfigurationError, match=r"What payments was launched with cannot be read: .*spec\.yaml"):
        Application(launched, NAME).specification(Use.RUNNING)


def test_a_file_of_another_application_is_refused_for_every_use(home: Home, write_spec: WriteSpec) -> None:
    text = write_spec("orders").read_text()
    home.spec_path(NAME).write_text(text)
    messages = set()
    for use in Use:
        with pytest.raises(ConfigurationError, match=r"payments\.yaml describes 'orders'") as caught:
            Application(home, NAME).specification(use)
        messages.add((caught.value.message, caught.value.remedy))
    assert len(messages) == 1


def test_a_look_at_an_application_says_where_its_file_differs(launched: Home) -> None:
    assert "differs from what payments was launched with" in observe(Application(launched, NAME)).note


def test_changed_keys_are_dotted_and_sorted() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": [1], "e": 1}
    after = {"a": {"b": 1, "c": 3, "x": None}, "d": [1, 2], "f": {"g": 1}}
    assert changed_keys(before, after) == ("a.c", "a.x", "d", "e", "f")
