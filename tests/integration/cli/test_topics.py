"""``millrace topics`` against a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cli.application import run

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], bootstrap_servers: str) -> Cli:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments, "--bootstrap-servers", bootstrap_servers], verbose=False)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_created_topic_is_listed_and_described_with_its_settings(
    cli: Cli, unique: str, make_topic: Callable[..., str]
) -> None:
    other = make_topic("other", partitions=2)
    created = f"{unique}-created"
    code, out, _ = cli("topics", "create", created, "--partitions", "3", "--config", "retention.ms=-1")
    assert (code, out) == (0, f"created {created} with 3 partitions\n")
    _, listed, _ = cli("topics", "list")
    rows = {line.split()[0]: line.split()[1:] for line in listed.splitlines()[1:]}
    assert rows[created] == ["3", "1"]
    assert rows[other] == ["2", "1"]
    assert not any(name.startswith("__") for name in rows)
    _, described, _ = cli("topics", "describe", created)
    assert [line.split() for line in described.splitlines()[1:4]] == [
        [str(partition), "1", "1", "1", "0", "0", "0"] for partition in range(3)
    ]
    # The broker itself may have set some, such as min.insync.replicas.
    settings = dict(line.split("=") for line in described.splitlines()[4:])
    assert settings["retention.ms"] == "-1"
    assert "segment.bytes" not in settings


def test_a_topic_that_exists_is_not_created_again(cli: Cli, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    code, _, err = cli("topics", "create", topic)
    assert code == 1
    assert topic in err


def test_an_unknown_topic_names_the_nearest_one(cli: Cli, make_topic: Callable[..., str]) -> None:
    topic = make_topic("payments")
    code, _, err = cli("topics", "describe", topic[:-1])
    assert code == 1
    assert repr(topic) in err
