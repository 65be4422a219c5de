"""Which reader a process uses, and what it says about it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import structlog

from millrace.errors import ConfigurationError
from millrace.kafka.columns import READER_VARIABLE, ReaderSettings, choice, kernel, layout_check, open_reader
from millrace.kafka.columns.c_interface import InterfaceUnavailableError
from millrace.kafka.columns.consumer_reader import ConsumerReader
from millrace.kafka.columns.librdkafka_reader import LibrdkafkaReader
from millrace.machine_code import MachineCodeUnavailableError

SETTINGS = ReaderSettings(bootstrap_servers="127.0.0.1:9", group="any")


@pytest.fixture(autouse=True)
def _decided_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(READER_VARIABLE, raising=False)
    for decided in (choice._chosen, layout_check.checked_kernel, kernel.kernel):
        decided.cache_clear()
    yield
    for decided in (choice._chosen, layout_check.checked_kernel, kernel.kernel):
        decided.cache_clear()


def opened_kind() -> type:
    reader = open_reader(SETTINGS)
    reader.close()
    reader.close()
    return type(reader)


def said_of_reader(logs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without what a reader says of the broker, which there is not."""
    return [line for line in logs if line["event"].startswith("records are read by")]


def test_the_reader_over_the_c_interface_is_used_where_it_can_be() -> None:
    with structlog.testing.capture_logs() as logs:
        assert opened_kind() is LibrdkafkaReader
    assert said_of_reader(logs) == []


def test_a_closed_reader_says_so() -> None:
    for opener in choice.OPENERS.values():
        reader = opener(SETTINGS)
        reader.close()
        with pytest.raises(RuntimeError, match="closed"):
            reader.poll(0, 1)
        with pytest.raises(RuntimeError, match="closed"):
            reader.assign({("any", 0): 0})


def test_a_process_that_cannot_compile_says_once_what_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(source: str) -> None:
        raise MachineCodeUnavailableError("memory may not be made executable")

    monkeypatch.setattr(kernel, "compiled", no_compiler)
    with structlog.testing.capture_logs() as logs:
        assert opened_kind() is ConsumerReader
        assert opened_kind() is ConsumerReader
    (line,) = said_of_reader(logs)
    assert line["log_level"] == "warning"
    assert "2 microseconds more a record" in line["event"]
    assert "memory may not be made executable" in line["reason"]


def test_a_process_that_is_forked_reads_with_what_its_parent_has_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened_kind() is LibrdkafkaReader

    def compiled_again(source: str) -> None:
        raise AssertionError("the parent has done it")

    monkeypatch.setattr(kernel, "compiled", compiled_again)
    child = multiprocessing.get_context("fork").Process(target=_open_as_expected)
    child.start()
    child.join(30)
    assert child.exitcode == 0


def _open_as_expected() -> None:
    assert opened_kind() is LibrdkafkaReader


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(READER_VARIABLE, "consumer")
    assert opened_kind() is ConsumerReader
    monkeypatch.setenv(READER_VARIABLE, "librdkafka")
    assert opened_kind() is LibrdkafkaReader


def test_a_reader_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(READER_VARIABLE, "fast")
    with pytest.raises(ConfigurationError, match="'fast', which is no reader") as raised:
        open_reader(SETTINGS)
    assert "consumer, librdkafka" in raised.value.remedy


def test_a_reader_that_is_asked_for_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> None:
        raise InterfaceUnavailableError("librdkafka 3.0.0 is not known")

    monkeypatch.setattr(choice, "checked_kernel", unavailable)
    monkeypatch.setenv(READER_VARIABLE, "librdkafka")
    with pytest.raises(ConfigurationError, match=r"librdkafka 3\.0\.0 is not known"):
        open_reader(SETTINGS)


@pytest.mark.parametrize("field", ["partition", "key_bytes", "value", "offset"])
def test_messages_that_are_laid_out_in_another_way_are_found_before_one_is_read(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    moved = tuple((name, offset - 8 if name == field else offset, kind) for name, offset, kind in kernel.MESSAGE_FIELDS)
    monkeypatch.setattr(kernel, "MESSAGE_FIELDS", moved)
    with pytest.raises(InterfaceUnavailableError, match="laid out in another way"):
        layout_check.checked_kernel()


@pytest.mark.parametrize("queued", ["0", "2000000", "many"])
def test_a_queue_that_no_poll_could_give_is_refused(queued: str) -> None:
    settings = ReaderSettings(bootstrap_servers="any:1", group="any", settings={"queued.max.messages.kbytes": queued})
    with pytest.raises(ConfigurationError, match=f"queued.max.messages.kbytes is {queued}"):
        open_reader(settings)
