"""The checkout that a measurement compares with."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from tests.bench.run import prepared_checkout


def test_a_directory_that_millrace_cannot_run_from_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="git worktree add"):
        prepared_checkout(tmp_path)
    # A worktree has a file there.
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    with pytest.raises(typer.BadParameter, match=r"scripts/setup\.sh"):
        prepared_checkout(tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    assert prepared_checkout(tmp_path) == tmp_path
    assert prepared_checkout(None) is None
