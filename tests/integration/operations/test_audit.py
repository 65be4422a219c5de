"""An audit of a stopped application: stores of each kind equal their changelogs, and whatever differs is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from millrace.errors import ConfigurationError, StateDirectoryLockedError
from millrace.install.application import Application
from millrace.operations.audit import AuditOptions, audit
from millrace.operations.audit.report import DifferenceKind
from millrace.state import DirectoryLock
from tests.application import PREFIX_VARIABLE
from tests.integration.operations.worked import Worked
from tests.records import Record, produce

TOPICS = ("in", "other", "table", "joined")


@pytest.fixture
def worked(bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worked]:
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    application = Worked(bootstrap_servers, unique, tmp_path, "every_kind", TOPICS)
    records = [Record(f"key-{n % 40}".encode(), b"x", 1_000_000 + n * 700) for n in range(400)]
    application.send("in", records)
    application.send("other", records[:100])
    application.send("table", [Record(f"k{n % 5}".encode(), str(n).encode(), 1_000_000 + n * 500) for n in range(100)])
    application.work()
    application.send("in", [Record(b"key-3", b"y", 1_300_000)])
    application.work()
    yield application
    application.admin.delete_topics([*application.changelogs(), *(f"{unique}-{name}" for name in TOPICS)])


def change(path: Path, store: str, edit: Callable[[Rdict], None]) -> None:
    """Edits the rows of a store behind everybody's back."""
    options = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(path), options) if name != "default"}
    database = Rdict(str(path), options, column_families=families)
    family = database.get_column_family(f"store.{store}")
    edit(family)
    family.close()
    database.close()


def test_stores_of_each_kind_equal_their_changelogs(worked: Worked) -> None:
    report = audit(Application(worked.home, worked.name))
    assert report.agrees, report.differences
    assert not report.running
    compared = {each.store: each.keys for each in report.stores}
    assert set(compared) == {
        "counts", "windows", "sessions", "final-store", "prices", "joining-this-join-store", "joining-other-join-store"
    }  # fmt: skip
    assert compared["counts"] == 40
    assert all(compared.values()), compared
    assert not any(each.skipped for each in report.stores)
    assert sorted(path.name for path in worked.database().parent.parent.joinpath("audit").iterdir()) == ["lock"]


def test_each_row_that_differs_is_listed_by_its_key(worked: Worked) -> None:
    def flip(family: Rdict) -> None:
        value = family[b"key-7"]
        family[b"key-7"] = value[:-1] + bytes([value[-1] ^ 1])
        family[b"nobody"] = b"\0" * 8 + b"z"
        del family[b"key-9"]

    change(worked.database(), "counts", flip)
    report = audit(Application(worked.home, worked.name))
    assert not report.agrees
    found = {difference.key: difference for difference in report.differences}
    assert {key: each.kind for key, each in found.items()} == {
        b"key-7": DifferenceKind.OTHER_VALUE,
        b"key-9": DifferenceKind.ONLY_IN_CHANGELOG,
        b"nobody": DifferenceKind.ONLY_IN_STORE,
    }
    assert {each.store for each in found.values()} == {"counts"}
    assert found[b"key-7"].logged == (10).to_bytes(8, "big")
    assert found[b"key-7"].stored == (11).to_bytes(8, "big")
    assert found[b"key-7"].stored_at == found[b"key-7"].logged_at == 1_000_000 + 367 * 700
    assert (found[b"nobody"].stored_at, found[b"nobody"].logged_at) == (0, None)


@pytest.mark.parametrize("store", ["windows", "sessions", "prices", "joining-this-join-store", "final-store"])
def test_a_flipped_value_of_any_kind_of_store_is_found(worked: Worked, store: str) -> None:
    def flip(family: Rdict) -> None:
        key, value = next(iter(family.items(backwards=True)))
        family[key] = value[:-1] + bytes([value[-1] ^ 1])

    change(worked.database("0_0" if store != "prices" else "1_0"), store, flip)
    report = audit(Application(worked.home, worked.name))
    assert [(each.store, each.kind) for each in report.differences] == [(store, DifferenceKind.OTHER_VALUE)]


def test_a_flipped_byte_in_a_file_is_found(worked: Worked) -> None:
    def flush(family: Rdict) -> None:
        family.flush()

    change(worked.database(), "counts", flush)
    biggest = max(worked.database().glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(biggest.read_bytes())
    data[len(data) // 4] ^= 1
    biggest.write_bytes(data)
    report = audit(Application(worked.home, worked.name))
    assert not report.agrees
    assert DifferenceKind.UNREADABLE in {each.kind for each in report.differences}
    assert any("Corruption" in each.text for each in report.differences)


def test_a_changelog_record_that_somebody_else_wrote_is_found(worked: Worked, bootstrap_servers: str) -> None:
    foreign = Record(b"key-5", (99).to_bytes(8, "big"), 2_000_000)
    produce(bootstrap_servers, worked.changelog("counts"), [foreign])
    # What lies behind the end that the store stands for is none of it, until the store goes on.
    assert audit(Application(worked.home, worked.name), AuditOptions(stores=("counts",))).agrees
    worked.send("in", [Record(b"key-6", b"z", 1_400_000)])
    worked.work()
    report = audit(Application(worked.home, worked.name), AuditOptions(stores=("counts",)))
    assert [each.key for each in report.differences] == [b"key-5"]
    assert report.differences[0].logged == (99).to_bytes(8, "big")


def test_a_sample_compares_a_share_of_the_keys(worked: Worked) -> None:
    report = audit(Application(worked.home, worked.name), AuditOptions(sample=0.5, stores=("counts", "windows")))
    assert report.agrees
    assert 0 < sum(each.keys for each in report.stores if each.store == "counts") < 40


def test_what_the_budget_left_out_is_said(worked: Worked) -> None:
    report = audit(Application(worked.home, worked.name), AuditOptions(budget_s=1e-6))
    assert report.agrees
    assert all("time was over" in each.skipped for each in report.stores)


def test_stores_that_another_process_has_are_refused(worked: Worked) -> None:
    lock = DirectoryLock(worked.database().parent)
    try:
        with pytest.raises(StateDirectoryLockedError):
            audit(Application(worked.home, worked.name))
    finally:
        lock.release()


def test_a_sample_of_nothing_is_refused(worked: Worked) -> None:
    with pytest.raises(ConfigurationError, match="A sample of 0"):
        audit(Application(worked.home, worked.name), AuditOptions(sample=0))


def test_the_command_exits_with_1_where_something_differs(worked: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(worked.home.specs))
    monkeypatch.setenv("MILLRACE_HOME", str(worked.home.root))
    command = [sys.executable, "-m", "millrace", "audit", worked.name, "--json"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    change(worked.database(), "counts", lambda family: family.delete(b"key-1"))
    result = subprocess.run(command, capture_output=True, check=False)
    assert result.returncode == 1, result.stderr
    (difference,) = json.loads(result.stdout)["differences"]
    assert (difference["store"], difference["task"], difference["key"]) == ("counts", "0_0", "key-1")
    assert difference["logged"] == "0x000000000000000a"
