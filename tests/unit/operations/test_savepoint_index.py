from __future__ import annotations

import pytest

from millrace.errors import OperationError
from millrace.install.home import Home
from millrace.operations.savepoint_index import KnownSavepoint, read_index, write_index
from millrace.operations.savepoints.manifest import Manifest, SavedFile, SavepointState

NAME = "payments"


def test_what_the_last_look_found_is_read_back(home: Home) -> None:
    directory = home.application(NAME)
    assert read_index(directory) == []
    taken = Manifest(
        name="first",
        application=NAME,
        state=SavepointState.COMPLETED,
        created_at=12.5,
        reason="before the upgrade",
        files=[SavedFile(path="0_0/a", size=7, sha256="00")],
    )
    write_index(directory, [taken.known()])
    assert read_index(directory) == [
        KnownSavepoint(name="first", state="COMPLETED", created_at=12.5, bytes=7, reason="before the upgrade")
    ]


@pytest.mark.parametrize("text", ["[]", "{}", '{"savepoints": [{"name": "x"}]}', "no json"])
def test_a_file_that_says_nothing_is_refused_with_what_to_do(home: Home, text: str) -> None:
    directory = home.application(NAME)
    directory.path.mkdir(parents=True)
    directory.savepoints.write_text(text)
    with pytest.raises(OperationError) as error:
        read_index(directory)
    assert error.value.remedy
