from __future__ import annotations

from collections import Counter

import numpy as np
import orjson
import pytest

from tests.bench.workloads import (
    FIRST_EVENT_MS,
    GRACE_MS,
    LONGEST_DELAY_MS,
    W1,
    W2,
    WINDOW_MS,
    Payments,
    Workload,
    count_windows,
    generate,
    key_matrix,
    murmur2,
    partitions_of,
)

SMALL = Workload("small", records=20_000, keys=50)


def payments(workload: Workload = SMALL) -> Payments:
    (only,) = generate(workload)
    return only


def test_the_issue_s_workloads_have_three_million_records_and_their_number_of_keys() -> None:
    assert (W1.records, W1.keys, W1.partitions) == (3_000_000, 100_000, 4)
    assert (W2.records, W2.keys, W2.partitions) == (3_000_000, 1_000, 4)


def test_a_workload_is_the_same_bytes_each_time() -> None:
    assert payments().values == payments().values
    assert payments().keys == payments().keys


def test_another_seed_is_another_workload() -> None:
    assert payments().values != payments(Workload("small", records=20_000, keys=50, seed=1)).values


def test_a_workload_of_more_than_one_chunk_has_all_its_records_in_order_of_arrival() -> None:
    chunks = list(generate(Workload("chunks", records=500_001, keys=10)))
    assert [len(chunk.users) for chunk in chunks] == [500_000, 1]
    assert chunks[1].timestamps[0] > chunks[0].timestamps[0] + 90_000


def test_a_value_is_json_of_about_100_bytes_that_agrees_with_key_and_timestamp() -> None:
    some = payments()
    for key, value, timestamp in zip(some.keys, some.values, some.timestamps, strict=True):
        payment = orjson.loads(value)
        assert 90 <= len(value) <= 110
        assert payment["user"].encode() == key
        assert payment["at"] == timestamp
        assert payment["amount"] > 0
        assert set(payment) == {"user", "amount", "currency", "country", "merchant", "at"}


def test_every_key_of_a_small_key_space_occurs() -> None:
    assert set(payments().keys) == {b"u%07d" % user for user in range(50)}


def test_payments_are_out_of_order_but_never_later_than_the_grace() -> None:
    timestamps = payments().timestamps
    newest = np.maximum.accumulate(timestamps)
    assert (np.diff(timestamps) < 0).any()
    assert (newest - timestamps).max() <= LONGEST_DELAY_MS < GRACE_MS
    assert timestamps.min() >= FIRST_EVENT_MS


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_hashes_that_kafka_gives(word: bytes, expected: int) -> None:
    (hashed,) = murmur2(np.frombuffer(word, dtype=np.uint8).reshape(1, -1)).astype(np.int32)
    assert hashed == expected


def test_all_records_of_a_key_are_in_one_partition_and_all_partitions_are_used() -> None:
    some = payments()
    pairs = {(user, partition) for user, partition in zip(some.users.tolist(), some.partitions.tolist(), strict=True)}
    assert len(pairs) == SMALL.keys
    assert {partition for _, partition in pairs} == {0, 1, 2, 3}


def test_partitions_are_never_negative() -> None:
    partitions = partitions_of(key_matrix(np.arange(10_000, dtype=np.int64)), 7)
    assert partitions.min() == 0
    assert partitions.max() == 6


def test_counts_equal_those_of_a_plain_loop() -> None:
    some = payments()
    expected = Counter(
        (user, timestamp // WINDOW_MS * WINDOW_MS)
        for user, timestamp in zip(some.users.tolist(), some.timestamps.tolist(), strict=True)
    )
    counts = count_windows(some.users, some.timestamps)
    rows = zip(counts.users.tolist(), counts.starts.tolist(), counts.counts.tolist(), strict=True)
    assert {(user, start): count for user, start, count in rows} == expected


def test_a_scaled_workload_says_its_sizes_and_the_same_sizes_are_the_same_workload() -> None:
    assert W1.scaled(partitions=16).name == "W1-r3000000-k100000-p16"
    assert W1.scaled(records=3_000_000) is W1


@pytest.mark.parametrize(("records", "keys", "partitions"), [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 10_000_001, 1)])
def test_sizes_that_cannot_be_generated_are_refused(records: int, keys: int, partitions: int) -> None:
    with pytest.raises(ValueError, match="bad"):
        Workload("bad", records=records, keys=keys, partitions=partitions)
