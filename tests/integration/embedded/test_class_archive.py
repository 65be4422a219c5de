"""What makes the broker's virtual machines start sooner."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace.embedded.broker import EmbeddedBroker
from millrace.embedded.class_archive import make_broker_archive
from millrace.kafka.jars import BROKER_JARS, resolve_jars

FROM_ARCHIVE = "shared objects file (top)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with the broker's jars, by a link, and no archive."""
    jars = resolve_jars(BROKER_JARS)[0].parent
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / jars.name).symlink_to(jars, target_is_directory=True)
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    return tmp_path


def test_a_broker_maps_the_archive_that_was_made_for_it(home: Path, tmp_path: Path) -> None:
    (home / "jars" / "broker-of-another-java.jsa").touch()
    said: list[str] = []
    archive = make_broker_archive(said.append)
    assert list((home / "jars").glob("*.jsa")) == [archive]
    assert archive.name in said[-1]

    log = tmp_path / "classes"
    with EmbeddedBroker(tmp_path / "broker", java_options=(f"-Xlog:class+load:file={log}",)):
        loaded = dict(re.findall(r"\] (\S*kafka\.\S+) source: (.*)", log.read_text()))
    own = {name: source for name, source in loaded.items() if "Lambda" not in name}
    mapped = sum(source == FROM_ARCHIVE for source in own.values())
    assert mapped > 0.98 * len(own) > 1_000, {name for name, source in own.items() if source != FROM_ARCHIVE}

    # It is there: nothing is made, and nothing said.
    count = len(said)
    assert make_broker_archive(said.append) == archive
    assert len(said) == count
