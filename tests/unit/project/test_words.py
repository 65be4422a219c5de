"""Identifiers that a reader of Kafka's, Spark's and Airflow's documentation would not find there do not come back."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("dags", "demo", "jobs", "plugins", "scripts", "tests")
WORDS = {
    "Belongings": "ApplicationResources",
    "Caller": "Requester",
    "DeadLetter": "DeadLetterRecord",
    "Findings": "UnreportedCounts",
    "LetterBox": "DeadLetterTopic",
    "Sight": "Probe",
    "Subject": "KnownApplication",
    "TestWaitingStore": "TestOuterJoinStore",
    "WAITS_FOR_NOTHING": "TASK_IDLE_DISABLED",
    "WaitingRecords": "NonJoinedRecords or UnprocessedRecords",
    "add_trip": "add_repartition",
    "begin_anew": "restart_copy",
    "bring_to": "restore_to",
    "burn_store_name": "skip_store_index",
    "called_by": "on_behalf_of",
    "carry_on_or": "resume_or",
    "commit_in_place_of": "fence_and_commit",
    "end_rest": "end_remaining_tasks",
    "forget": "discard",
    "forgets_state": "discards_state",
    "give_back": "return_unreported",
    "give_nothing": "may_delete",
    "give_up": "release",
    "gives_tasks": "assigns_tasks",
    "gives_up_state": "discards_state",
    "letter": "record",
    "look_again": "refresh",
    "next_place": "next_ordinal",
    "put_in_place": "install_archive",
    "read_waiting_key": "read_outer_join_key",
    "sorted_places": "sorted_rows",
    "untold": "unreported",
    "wait_for_whoever_carries_out": "wait_for_running_operation",
    "waiting_key": "outer_join_key",
    "wants_stop": "is_cancelled",
    "with_patience": "retry_until_answered",
}
"""A name that was, and what is said now."""
SAID_PLAINLY = {
    "_place": "position or topic_partition",
    "_places": "positions or topic_partitions",
    "_told": "reported",
    "_waiting": "buffered, pending or remaining",
    "place": "position, index or topic_partition: whichever it is",
    "places": "positions, indices or topic_partitions",
    "rest": "remaining",
    "told": "reported",
    "waiting": "buffered, pending or remaining",
}
"""What a name of one word says too little with."""
WRITTEN = {"waiting": ("driver/savepoint.py", "operations/savepoints/restore_steps.py")}
"""A name that is a key of what is written, in savepoints, and the modules that have it."""
PLAIN_ROOMS = (
    "cli",
    "driver",
    "dsl",
    "embedded",
    "insight",
    "install",
    "kafka",
    "launch",
    "metrics",
    "operations",
    "queries",
    "rewrites",
    "sizing",
    "spark",
    "state",
    "supervise",
    "task",
    "testing",
    "topology",
)
"""The packages whose names were read for this. A package that was read is added."""
NOT_IN_TEXTS = re.compile(r"\b(anew|nobody|shall|somebody)\b", re.IGNORECASE)
"""Again, no process, should, an operator."""
TEXTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "config/**/*.json",
    "config/**/*.yaml",
    "config/**/*.yml",
    "dags/**/*.py",
    "docs/**/*.md",
    "jobs/**/*.py",
    "jobs/**/*.template",
    "plugins/**/*.html",
    "plugins/**/*.py",
    "scripts/**/*.py",
)
QUESTIONS = ("How", "What", "When", "Where", "Whether", "Which", "Who", "Whoever", "Why")
"""A summary that begins so is a clause without a verb of its own."""
ONE_MEANING = ("RestartPolicy", "HealthLimits", "CommittedOffset", "RecordContext", "TopicPartition", "take_over")
"""Names that were defined twice, each with another meaning."""


def names(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each identifier."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def plain_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each identifier that says too little, attributes among them."""
    return ((line, name) for line, name in names(source) if name in SAID_PLAINLY)


def clauses(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each public summary that is a clause: of modules, classes and functions, not of properties."""
    nodes: list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        summary = (ast.get_docstring(node) or "").partition("\n")[0]
        if summary.partition(" ")[0] in QUESTIONS:
            yield getattr(node, "lineno", 1), summary
        if isinstance(node, ast.Module | ast.ClassDef):
            nodes += [
                each
                for each in node.body
                if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not each.name.startswith("_")
                and not any("property" in ast.unparse(decorator) for decorator in each.decorator_list)
            ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_field_s_words_are_used(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}, say {WORDS[name]}"
        for path in files
        for line, name in names(path.read_text(encoding="utf-8"))
        if name in WORDS
    ]
    assert found == []


@pytest.mark.parametrize("name", ONE_MEANING)
def test_a_name_is_defined_once(name: str) -> None:
    # At the left margin: methods of hooks and command lines may be called as what they call.
    lines = {f"class {name}", f"def {name}"}
    found = [
        path.relative_to(ROOT)
        for path in sorted((ROOT / "jobs" / "millrace").rglob("*.py"))
        if path.parent.name != "cli"
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.partition("(")[0].partition(":")[0] in lines or line.startswith(f"{name} = ")
    ]
    assert len(found) == 1, found


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_names_say_which_place_and_who_waits(room: str) -> None:
    package = ROOT / "jobs" / "millrace"
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}, say {SAID_PLAINLY[name]}"
        for path in sorted((package / room).rglob("*.py"))
        for line, name in plain_names(path.read_text(encoding="utf-8"))
        if path.relative_to(package).as_posix() not in WRITTEN.get(name, ())
    ]
    assert found == []


@pytest.mark.parametrize("name", WRITTEN)
def test_a_name_that_is_written_is_where_it_is_said_to_be(name: str) -> None:
    for module in WRITTEN[name]:
        source = (ROOT / "jobs" / "millrace" / module).read_text(encoding="utf-8")
        assert name in {found for _, found in plain_names(source)}, module


@pytest.mark.parametrize("pattern", TEXTS)
def test_texts_say_no_process_again_and_should(pattern: str) -> None:
    files = sorted(ROOT.glob(pattern))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word[0]}"
        for path in files
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (word := NOT_IN_TEXTS.search(text))
    ]
    assert found == []


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_a_summary_is_a_sentence(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {summary}"
        for path in sorted((ROOT / "jobs" / "millrace" / room).rglob("*.py"))
        for line, summary in clauses(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_word_would_be_found() -> None:
    assert [name for _, name in names("letter = 1  # forget\n") if name in WORDS] == ["letter"]
    assert list(plain_names("place = batch.places\n")) == [(1, "place"), (1, "places")]
    assert NOT_IN_TEXTS.search("Somebody has it read anew.")
    assert not NOT_IN_TEXTS.search("a shallow copy")


def test_a_clause_would_be_found() -> None:
    source = '''"""What it is."""


class Store:
    """A store."""

    def get(self):
        """What the store has."""

    @property
    def is_open(self):
        """Whether it is open."""

    def _size(self):
        """How large it is."""
'''
    assert list(clauses(source)) == [(1, "What it is."), (7, "What the store has.")]
