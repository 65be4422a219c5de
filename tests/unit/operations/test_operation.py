"""The kinds of operations that a journal can be resumed with."""

from __future__ import annotations

import re
from pathlib import Path

import millrace
from millrace.operations.operation import REGISTERING_MODULES

PACKAGE = Path(millrace.__file__).parent


def test_every_module_that_registers_an_operation_is_imported_before_one_is_resumed() -> None:
    registering = {
        ".".join(("millrace", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^@operation\(", path.read_text(), re.MULTILINE)
    }
    assert len(registering) >= 9
    assert registering == {*REGISTERING_MODULES}
