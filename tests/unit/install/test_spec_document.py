"""Files that are no specification: each says what is wrong with it, and none harms the process that reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError
from millrace.install.spec_document import MOST_BYTES, read_document

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 9)}]\n" for name in "bcdefghij"
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [*{chr(ord(name) - 1)}, *{chr(ord(name) - 1)}]}}\n" for name in "bcdefghijklmnop"
)


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user who may read nothing that others have not opened for all."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("description: Aufträge".encode("latin-1"), "is not UTF-8: byte 0xe4 in line 1"),
        ("name: a\ndescription: Aufträge".encode("cp1252"), "is not UTF-8: byte 0xe4 in line 2"),
        ("description: Aufträge".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("name: orders".encode("utf-16-be"), "has a zero byte in line 1"),
        ("name: orders".encode("utf-16-le"), "has a zero byte in line 1"),
        (b"", "is empty"),
        (b"# nothing yet\n", "is empty"),
        (b"just text", "holds no mapping"),
        (b"- name: a", "holds no mapping"),
        (b"a: [", "is not valid YAML: line "),
        (b"name: a\n---\nname: b\n", "holds several documents; the second begins in line 2"),
        (b"name: a\nmodule: b\nname: c\n", "line 3: the key 'name' is there twice, first in line 1"),
        (b"config: {a: 1, a: 2}", "line 1: the key 'a' is there twice"),
        (BOMB.encode(), "keys and values, and 20,000 are the most"),
        (MERGES.encode(), "keys and values, and 20,000 are the most"),
        (b"a: &a [*a]", "has an alias within what it stands for in line 1"),
        (b"a: " + b"[" * 51 + b"]" * 51, "more than 50 mappings and lists within each other in line 1"),
        (b"a: " + b"[" * 5000, "line 1"),
        (b"x" * (MOST_BYTES + 1), "has more than 1,048,576 bytes"),
        (b"1: a", "the key 1 is not text"),
        (b"? [a]\n: b", "is not text"),
        (b"a: 2026-13-45", "is read as `timestamp`"),
        (b"a: !!binary aGk=", "is read as `binary`"),
        (b"a: !!python/object:os.system x", "is not valid YAML"),
        (b"a: " + b"9" * 5000, "is no number"),
        (b"a: 18446744073709551616", "does not fit into 64 bits"),
        (b"a: .inf", "is no finite number"),
        (b"a: !!bool perhaps", "is neither true nor false"),
        (b'a: "\\ud800"', "line 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path, content: bytes, problem: str) -> None:
    """Case A12, and what else a file can be."""
    path = tmp_path / "orders.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_document(path)
    assert str(path) in caught.value.message
    assert problem in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("kind", ["directory", "loop", "dangling", "pipe"])
def test_what_is_no_file_is_named_as_what_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "orders.yaml"
    make = {
        "directory": path.mkdir,
        "loop": lambda: path.symlink_to(path),
        "dangling": lambda: path.symlink_to("nowhere"),
        "pipe": lambda: os.mkfifo(path),
    }
    said = {
        "directory": "is a directory, not a file",
        "loop": "cannot be read: Too many levels of symbolic links",
        "dangling": "is a link to nowhere, which is not there",
        "pipe": "is a named pipe, not a file",
    }
    make[kind]()
    with pytest.raises(ConfigurationError) as caught:
        read_document(path)
    assert f"{path} {said[kind]}" in caught.value.message


def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("name: orders")
    path.chmod(0)
    with without_rights(), pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        read_document(path)


def test_a_file_that_cannot_be_read_to_its_end_says_so(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.symlink_to("/proc/self/mem")
    with pytest.raises(ConfigurationError, match="cannot be read: Input/output error"):
        read_document(path)


def test_a_byte_order_mark_aliases_and_merged_keys_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_bytes("\ufeffcommon: &c {a: 1, b: 2}\nown: {<<: *c, b: 3}\ntext: Aufträge\n...\n".encode())
    assert read_document(path) == {"common": {"a": 1, "b": 2}, "own": {"a": 1, "b": 3}, "text": "Aufträge"}
