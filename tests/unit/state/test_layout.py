from __future__ import annotations

import numpy as np

from millrace.state import layout


def test_a_changelog_window_key_is_key_then_eight_byte_start_then_four_byte_sequence() -> None:
    keys = layout.changelog_window_keys([b"ab", b""], np.array([60_000, 1_700_000_000_000]))

    assert [key.hex() for key in keys] == ["6162000000000000ea6000000000", "0000018bcfe5680000000000"]
    assert layout.window_starts(keys).tolist() == [60_000, 1_700_000_000_000]
    assert layout.window_start(keys[0]) == 60_000


def test_a_local_window_key_has_the_segment_before_the_changelog_key() -> None:
    starts = np.array([60_000, 240_000])
    changelog = layout.changelog_window_keys([b"k", b"k"], starts)

    local = layout.prefixed_window_keys(changelog, starts, lambda start: start // 120_000)

    assert [key.hex() for key in local] == [
        "00000000000000006b000000000000ea6000000000",
        "00000000000000026b000000000003a98000000000",
    ]
    assert local[1:] == layout.local_window_keys([b"k"], 240_000, 2)


def test_a_local_value_is_the_eight_byte_timestamp_and_the_value() -> None:
    packed = layout.pack_values([b"v", None, b""], np.array([256, 7, -1]))

    assert packed == [bytes.fromhex("0000000000000100") + b"v", None, bytes.fromhex("ffffffffffffffff")]
    values, timestamps = layout.unpack_values(packed)
    assert values == [b"v", None, b""]
    assert timestamps.tolist() == [256, -1, -1]
    assert layout.unpack_value(packed[0] or b"") == (b"v", 256)


def test_no_rows_are_no_rows() -> None:
    assert layout.unpack_values([])[0] == []
    assert layout.changelog_window_keys([], np.array([], dtype=np.int64)) == []
