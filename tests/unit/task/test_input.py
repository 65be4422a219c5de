"""The merge of a task's inputs against a model that takes one record after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.task.input import (
    InputBatch,
    OffsetRange,
    concat_inputs,
    decided_length,
    empty_input,
    in_stream_order,
    positions_after,
)
from millrace.topology.topic_partition import TopicPartition

TOPICS = ("clicks", "users")
PARTITIONS: list[TopicPartition] = [("clicks", 0), ("clicks", 3), ("users", 0)]
Rows = list[tuple[TopicPartition, int, int]]

# For each partition the gaps between offsets and the timestamps; None where the partition has nothing.
PARTITION_ROWS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12)), max_size=8)
INPUTS = st.tuples(*(PARTITION_ROWS for _ in PARTITIONS))


def _rows(inputs: tuple[list[tuple[int, int]], ...]) -> Rows:
    rows: Rows = []
    for topic_partition, own in zip(PARTITIONS, inputs, strict=True):
        offset = 10
        for gap, timestamp in own:
            offset += gap
            rows.append((topic_partition, offset, timestamp))
    return rows


def _batch(rows: Rows) -> InputBatch:
    return InputBatch(
        topics=TOPICS,
        topic=np.array([TOPICS.index(topic) for (topic, _), _, _ in rows], dtype=np.int64),
        partition=np.array([partition for (_, partition), _, _ in rows], dtype=np.int64),
        offset=np.array([offset for _, offset, _ in rows], dtype=np.int64),
        timestamp=np.array([timestamp for _, _, timestamp in rows], dtype=np.int64),
        keys=pa.array([None] * len(rows), type=pa.binary()),
        values=pa.array([str(offset).encode() for _, offset, _ in rows], type=pa.binary()),
    )


def _of(batch: InputBatch) -> Rows:
    positions = [batch.position(row) for row in range(len(batch))]
    return [
        ((topic, partition), offset, int(batch.timestamp[row]))
        for row, (topic, partition, offset) in enumerate(positions)
    ]


def _model(rows: Rows) -> Rows:
    """Always takes the record with the smallest timestamp at the head of a partition, ties by topic and partition."""
    queues = {
        topic_partition: sorted((row for row in rows if row[0] == topic_partition), key=lambda row: row[1])
        for topic_partition in PARTITIONS
    }
    taken: Rows = []
    while any(queues.values()):
        topic_partition = min(
            (topic_partition for topic_partition in PARTITIONS if queues[topic_partition]),
            key=lambda topic_partition: (queues[topic_partition][0][2], topic_partition),
        )
        taken.append(queues[topic_partition].pop(0))
    return taken


@given(INPUTS, st.randoms(use_true_random=False))
def test_rows_are_taken_as_a_record_by_record_merge_takes_them(
    inputs: tuple[list[tuple[int, int]], ...], random: object
) -> None:
    rows = _rows(inputs)
    shuffled = rows.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [row[:2] for row in _by_running_maximum(rows)] == [row[:2] for row in _of(in_stream_order(_batch(shuffled)))]
    ordered = in_stream_order(_batch(shuffled))
    assert ordered.values.to_pylist() == [str(offset).encode() for _, offset, _ in _of(ordered)]


def _by_running_maximum(rows: Rows) -> Rows:
    """The model over running maxima: a record that is older than one before it in its partition follows at once."""
    raised: Rows = []
    original = {row[:2]: row for row in rows}
    for topic_partition in PARTITIONS:
        latest = -1
        for row in rows:
            if row[0] == topic_partition:
                latest = max(latest, row[2])
                raised.append((topic_partition, row[1], latest))
    return [original[row[:2]] for row in _model(raised)]


@given(INPUTS)
def test_the_merge_is_that_of_heads_but_for_ties(inputs: tuple[list[tuple[int, int]], ...]) -> None:
    # Where no timestamp comes twice, the order is that of the plain merge of heads.
    rows = _rows(inputs)
    distinct = [
        (topic_partition, offset, timestamp * 100 + number)
        for number, (topic_partition, offset, timestamp) in enumerate(rows)
    ]
    assert _of(in_stream_order(_batch(distinct))) == _model(distinct)


@given(INPUTS, st.tuples(*(st.lists(st.integers(0, 15), max_size=4) for _ in PARTITIONS)))
def test_what_is_decided_stays_the_same_whatever_comes_later(
    inputs: tuple[list[tuple[int, int]], ...], later: tuple[list[int], ...]
) -> None:
    rows = _rows(inputs)
    ordered = in_stream_order(_batch(rows))
    ranges = {
        topic_partition: OffsetRange(11, 100, 100 + (50 if more else 0))
        for topic_partition, more in zip(PARTITIONS, later, strict=True)
    }
    length = decided_length(ordered, ranges)
    arrived = [
        (topic_partition, 100 + number, timestamp)
        for topic_partition, more in zip(PARTITIONS, later, strict=True)
        for number, timestamp in enumerate(more)
    ]
    whole = in_stream_order(_batch([*rows, *arrived]))
    assert _of(whole)[:length] == _of(ordered)[:length]
    if not arrived:
        assert length == len(rows)


@given(INPUTS, st.data())
def test_positions_point_behind_what_was_processed(
    inputs: tuple[list[tuple[int, int]], ...], data: st.DataObject
) -> None:
    rows = _rows(inputs)
    ordered = in_stream_order(_batch(rows))
    length = data.draw(st.integers(0, len(rows)))
    ranges = {topic_partition: OffsetRange(11, 100, 100) for topic_partition in PARTITIONS}
    positions = positions_after(ordered, length, ranges)
    done = {row[:2] for row in _of(ordered)[:length]}
    for topic_partition in PARTITIONS:
        own = [row[1] for row in rows if row[0] == topic_partition]
        assert {offset for offset in own if offset < positions[topic_partition]} == {
            offset for offset in own if (topic_partition, offset) in done
        }
        if all((topic_partition, offset) in done for offset in own):
            assert positions[topic_partition] == 100


def test_an_input_that_has_more_and_brought_nothing_decides_nothing() -> None:
    batch = in_stream_order(_batch([(("clicks", 0), 1, 5)]))
    ranges = {("clicks", 0): OffsetRange(0, 2, 2), ("users", 0): OffsetRange(0, 0, 3)}
    assert decided_length(batch, ranges) == 0
    assert positions_after(batch, 0, ranges) == {("clicks", 0): 1, ("users", 0): 0}


def test_a_single_input_is_decided_wholly() -> None:
    batch = _batch([(("clicks", 0), 1, 5), (("clicks", 0), 2, 4)])
    assert decided_length(batch, {("clicks", 0): OffsetRange(0, 3, 9)}) == 2


def test_batches_are_put_one_after_the_other_with_their_headers() -> None:
    first = _batch([(("clicks", 0), 1, 5)])
    headers = np.empty(1, dtype=object)
    headers[0] = [("trace", b"1")]
    second = _batch([(("clicks", 0), 2, 6)])
    second = InputBatch(**{**{name: getattr(second, name) for name in second.__dataclass_fields__}, "headers": headers})
    whole = concat_inputs([first, second, empty_input(TOPICS)])
    assert whole.offset.tolist() == [1, 2]
    assert whole.headers is not None
    assert whole.headers.tolist() == [None, [("trace", b"1")]]
