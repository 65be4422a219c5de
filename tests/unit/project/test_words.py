"""Identifiers that a reader of Kafka's, Spark's and Airflow's documentation would not find there do not come back."""

from __future__ import annotations

import io
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
    "add_trip": "add_repartition",
    "begin_anew": "restart_copy",
    "burn_store_name": "skip_store_index",
    "called_by": "on_behalf_of",
    "carry_on_or": "resume_or",
    "forget": "discard",
    "forgets_state": "discards_state",
    "give_up": "release",
    "gives_up_state": "discards_state",
    "letter": "record",
    "untold": "unreported",
    "wants_stop": "is_cancelled",
    "with_patience": "retry_until_answered",
}
"""A name that was, and what is said now."""
ONE_MEANING = ("RestartPolicy", "HealthLimits", "CommittedOffset", "RecordContext", "TopicPartition", "take_over")
"""Names that were defined twice, each with another meaning."""


def names(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each identifier."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


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


def test_a_word_would_be_found() -> None:
    assert [name for _, name in names("letter = 1  # forget\n") if name in WORDS] == ["letter"]
