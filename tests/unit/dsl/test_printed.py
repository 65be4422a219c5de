"""``KStream.print``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from millrace.dsl import Consumed, Printed, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import StringSerde
from millrace.testing import TopologyTestDriver

TEXT = StringSerde()


def run(printed: Printed | None) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    if printed is None:
        stream.print()
    else:
        stream.print(printed)
    with TopologyTestDriver(cloudpickle.loads(cloudpickle.dumps(builder.build()))) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        topic.pipe_input("a", "1")
        topic.pipe_input(None, None)


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (None, "[KSTREAM-SOURCE-0000000000]: a, 1\n[KSTREAM-SOURCE-0000000000]: None, None\n"),
        (Printed.to_sys_out().with_label("seen"), "[seen]: a, 1\n[seen]: None, None\n"),
        (Printed.to_sys_out().with_label("n").with_key_value_mapper(lambda key, value: f"{value}={key}"), None),
    ],
)
def test_records_are_printed_as_kafka_streams_does(
    printed: Printed | None, lines: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(printed)
    assert capsys.readouterr().out == (lines or "[n]: 1=a\n[n]: None=None\n")


def test_records_are_appended_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.txt"
    for _ in range(2):
        run(Printed.to_file(path).with_label("x"))
    assert path.read_text() == 2 * "[x]: a, 1\n[x]: None, None\n"


def test_the_node_is_named_as_in_kafka_streams() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    stream.print()
    stream.print(Printed.to_sys_out().with_name("look"))
    stream.to("out")
    text = builder.build().describe()
    assert "Processor: KSTREAM-PRINTER-0000000001 (stores: [])\n      --> none" in text
    assert "Processor: look (stores: [])" in text
    assert "Sink: KSTREAM-SINK-0000000003 (topic: out)" in text


def test_wrong_options_are_refused() -> None:
    wrong: Any = lambda key: key  # noqa: E731
    with pytest.raises(TopologyError, match="mapper of print"):
        Printed.to_sys_out().with_key_value_mapper(wrong)
    with pytest.raises(TopologyError, match="empty path"):
        Printed.to_file("")
    with pytest.raises(TopologyError, match="not a legal node name"):
        Printed.to_sys_out().with_name("a b")
