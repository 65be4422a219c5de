from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.task.actions import CheckpointTask, CompactDatabase, LinkDatabase, action_names, from_named, to_named


@pytest.mark.parametrize(
    "action", [LinkDatabase(Path("/a b")), CompactDatabase(), CompactDatabase(2.5), CheckpointTask(Path("/c"))]
)
def test_an_action_crosses_as_a_name_and_json(action):
    name, arguments = to_named(action)
    assert from_named(name, json.loads(json.dumps(arguments))) == action


def test_every_action_has_its_name():
    assert action_names() == ("checkpoint-stores", "compact-database", "link-database")


def test_a_callable_without_a_name_is_refused_with_what_to_do():
    with pytest.raises(OperationError, match="function is no named action") as caught:
        to_named(lambda _: None)
    assert "task_action" in caught.value.remedy


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(OperationError, match="no action 'system'") as caught:
        from_named("system", {})
    assert "link-database" in caught.value.remedy


@pytest.mark.parametrize("arguments", [{}, {"directory": 1}, {"directory": "/a", "more": 2}])
def test_arguments_of_another_form_are_refused(arguments):
    with pytest.raises(OperationError, match="Action link-database does not take its arguments: "):
        from_named("link-database", arguments)
