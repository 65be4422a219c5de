from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.kafka.murmur2 import murmur2, partition_for, partitions_for

JAVA = [
    ('Struct{documentKey={"_id": "638d1b94ce8def06be68b439"}}', 50, 40),
    ("TT0124", 15, 10),
    ("a", 4, 0),
    ("b", 4, 0),
    ("c", 4, 2),
    ("alice", 4, 1),
    ("bob", 4, 2),
    ("user-2", 4, 0),
]


@pytest.mark.parametrize(("key", "partitions", "expected"), JAVA)
def test_a_key_gets_the_partition_that_java_gives_it(key: str, partitions: int, expected: int) -> None:
    """Case J13."""
    assert partition_for(key.encode(), partitions) == expected
    assert partitions_for([key.encode()], partitions).tolist() == [expected]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_the_hash_equals_that_of_kafkas_own_tests(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 1_000))
def test_many_keys_at_once_get_the_partitions_of_each(keys: list[bytes | None], partitions: int) -> None:
    expected = [-1 if key is None else partition_for(key, partitions) for key in keys]
    result = partitions_for(keys, partitions)
    assert result.dtype == np.int32
    assert result.tolist() == expected
    assert partitions_for(pa.array(keys, pa.binary()), partitions).tolist() == expected
    assert partitions_for(pa.array(keys, pa.large_binary())[1:], partitions).tolist() == expected[1:]
