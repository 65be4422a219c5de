"""The tuning of RocksDB: read back from what RocksDB wrote down itself, and measured."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, JoinWindows, Materialized, StreamJoined, StreamsBuilder, TimeWindows
from millrace.errors import ConfigurationError, TopologyError
from millrace.serdes import StringSerde
from millrace.state import DatabaseOptions, StateOptions, TaskPosition, TaskState
from millrace.state.rocksdb import DEFAULTS, MEBIBYTE, shared_memory
from millrace.topology.rocksdb_options import Compression, RocksDBOptions
from tests.unit.state.specs import key_value
from tests.waiting import eventually

TEXT = StringSerde()
TUNED = RocksDBOptions(
    block_cache_bytes=3 * MEBIBYTE,
    block_bytes=16_384,
    write_buffer_bytes=2 * MEBIBYTE,
    max_write_buffers=5,
    bloom_filter_bits_per_key=15,
    compression="zstd",
    level0_file_num_compaction_trigger=6,
    level0_slowdown_writes_trigger=30,
    level0_stop_writes_trigger=50,
)


def config(**settings: object) -> StreamsConfig:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "b:1", **dotted})


def written_options(directory: Path, store: str) -> dict[str, str]:
    """What RocksDB's newest OPTIONS file says of the column family of a store."""
    newest = max((directory / "rocksdb").glob("OPTIONS-*"), key=lambda path: int(path.name.split("-")[1]))
    found: dict[str, str] = {}
    section = ""
    for line in newest.read_text().splitlines():
        if match := re.match(r"\[(.*)\]", line.strip()):
            section = match[1]
        elif f'"store.{store}"' in section and "=" in line:
            name, _, value = line.strip().partition("=")
            found[name] = value
    return found


def test_a_stores_tuning_is_what_rocksdb_has_opened_it_with_and_the_others_keep_the_defaults(tmp_path: Path) -> None:
    tuned, plain = key_value("tuned", rocksdb=TUNED), key_value("plain")
    state = TaskState.open(tmp_path, [tuned, plain])
    state.close()

    found = written_options(tmp_path, "tuned")
    assert found["write_buffer_size"] == str(2 * MEBIBYTE)
    assert found["max_write_buffer_number"] == "5"
    assert found["compression"] == "kZSTD"
    assert found["level0_file_num_compaction_trigger"] == "6"
    assert found["level0_slowdown_writes_trigger"] == "30"
    assert found["level0_stop_writes_trigger"] == "50"
    assert found["block_size"] == "16384"
    assert found["filter_policy"] == "bloomfilter"
    others = written_options(tmp_path, "plain")
    assert others["write_buffer_size"] == str(16 * MEBIBYTE)
    assert (others["compression"], others["block_size"]) == ("kLZ4Compression", "4096")


def test_the_configuration_gives_the_defaults_of_all_stores(tmp_path: Path) -> None:
    options = StateOptions.from_config(
        config(
            rocksdb_write_buffer_bytes=1 << 20,
            rocksdb_max_write_buffers=4,
            rocksdb_compression="none",
            rocksdb_bloom_filter_bits_per_key=0,
            rocksdb_level0_stop_writes_trigger=99,
        )
    )
    part_of_it = RocksDBOptions(compression=Compression.SNAPPY)
    state = TaskState.open(tmp_path, [key_value("own", rocksdb=part_of_it), key_value("plain")], options=options)
    state.close()
    for store, compression in (("own", "kSnappyCompression"), ("plain", "kNoCompression")):
        found = written_options(tmp_path, store)
        assert found["compression"] == compression
        assert (found["write_buffer_size"], found["max_write_buffer_number"]) == (str(1 << 20), "4")
        assert found["filter_policy"] == "nullptr"
        assert found["level0_stop_writes_trigger"] == "99"


def test_stores_that_nothing_is_said_of_are_as_the_settings_say_by_default() -> None:
    assert DatabaseOptions.from_config(config()) == DatabaseOptions(stores=DEFAULTS)
    unset = {name for name, value in asdict(DEFAULTS).items() if value is None}
    assert unset == {"block_cache_bytes"}, "the one option that only a store of its own has"


def test_the_bits_of_a_bloom_filter_are_in_the_files(tmp_path: Path) -> None:
    sizes = {}
    for bits in (0, 5, 20):
        tuning = RocksDBOptions(bloom_filter_bits_per_key=bits)
        state = TaskState.open(tmp_path / str(bits), [key_value("kv", rocksdb=tuning)])
        keys = [b"%06d" % number for number in range(20_000)]
        state.key_value_store("kv").put_many(keys, [b"v"] * len(keys), np.zeros(len(keys), int))
        state.drain_changelog()
        state.commit(TaskPosition())
        assert state._database is not None
        family = state._database.family("store.kv")
        family.flush()
        properties = family.property_value("rocksdb.aggregated-table-properties")
        found = re.search(r"filter block size[^=]*=(\d+)", properties)
        assert found is not None, properties
        sizes[bits] = int(found[1])
        state.close()
    assert sizes[0] == 0
    assert sizes[5] == pytest.approx(20_000 * 5 / 8, rel=0.3)
    assert sizes[20] == pytest.approx(20_000 * 20 / 8, rel=0.3)


@pytest.mark.parametrize("compression", list(Compression))
def test_what_was_written_with_any_compression_is_read_after_it_was_changed(
    compression: Compression, tmp_path: Path
) -> None:
    small = RocksDBOptions(compression=compression, write_buffer_bytes=64 * 1024)
    keys = [b"%06d" % number for number in range(3_000)]
    values: list[bytes | None] = [b"value %d" % number * 10 for number in range(3_000)]
    with_it = TaskState.open(tmp_path, [key_value("kv", rocksdb=small)])
    with_it.key_value_store("kv").put_many(keys, values, np.arange(3_000))
    with_it.drain_changelog()
    with_it.commit(TaskPosition())
    with_it.close()
    again = TaskState.open(tmp_path, [key_value("kv")], options=StateOptions(read_cache_bytes=0))
    assert again.key_value_store("kv").get_many(keys)[0] == values
    again.close()


def test_all_databases_of_a_process_stay_within_one_limit(tmp_path: Path) -> None:
    database = DatabaseOptions(memory_bytes=24 * MEBIBYTE, write_buffers_bytes=8 * MEBIBYTE)
    options = StateOptions(database=database, read_cache_bytes=0)
    memory = shared_memory(24 * MEBIBYTE, 8 * MEBIBYTE)
    states = [
        TaskState.open(tmp_path / f"0_{number}", [key_value("one"), key_value("two")], options=options)
        for number in range(4)
    ]
    noise = np.random.default_rng(3)
    most = 0
    for round_ in range(12):
        for state in states:
            for name in ("one", "two"):
                keys = [b"%02d%06d" % (round_, number) for number in range(1_000)]
                state.key_value_store(name).put_many(keys, [noise.bytes(1_000) for _ in keys], np.zeros(1_000, int))
            state.drain_changelog()
            state.commit(TaskPosition())
            assert sum(1 for _ in state.key_value_store("one").all()) == (round_ + 1) * 1_000
            most = max(most, memory.usage)
            # Buffers that are being written to files come above it for a while: how long, the machine decides.
            eventually(lambda: memory.usage < 36 * MEBIBYTE, True)
            eventually(lambda: memory.write_buffers.get_usage() < 28 * MEBIBYTE, True)
    # 96 MB went through; a limit for each database or store would have let four or eight times as much stay.
    assert most > 20 * MEBIBYTE
    for state in states:
        state.close()


def test_a_stores_own_block_cache_leaves_the_common_one_alone(tmp_path: Path) -> None:
    database = DatabaseOptions(memory_bytes=40 * MEBIBYTE, write_buffers_bytes=39 * MEBIBYTE)
    options = StateOptions(database=database, read_cache_bytes=0)
    memory = shared_memory(40 * MEBIBYTE, 39 * MEBIBYTE)
    own = RocksDBOptions(block_cache_bytes=8 * MEBIBYTE, write_buffer_bytes=1 * MEBIBYTE, compression="none")
    state = TaskState.open(tmp_path, [key_value("own", rocksdb=own)], options=options)
    keys = [b"%06d" % number for number in range(6_000)]
    noise = np.random.default_rng(4)
    for first in range(0, 6_000, 500):
        part = keys[first : first + 500]
        state.key_value_store("own").put_many(part, [noise.bytes(1_000) for _ in part], np.zeros(500, int))
        state.drain_changelog()
        state.commit(TaskPosition())
    before = memory.usage
    assert state.key_value_store("own").get_many(keys)[0].count(None) == 0
    assert memory.usage - before < MEBIBYTE
    database_handle = state._database
    assert database_handle is not None
    assert database_handle.family("store.own").property_int_value("rocksdb.block-cache-usage") > 3 * MEBIBYTE
    assert database_handle.family("store.own").property_int_value("rocksdb.block-cache-capacity") == 8 * MEBIBYTE
    state.close()


def test_materialized_and_stream_joined_hand_the_tuning_to_their_stores() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("plain").with_rocksdb_options(TUNED))
    windows = TimeWindows.of_size_with_no_grace(10)
    grouped.windowed_by(windows).count(Materialized.as_("windowed").with_rocksdb_options(TUNED))
    builder.table("table", Consumed.with_(TEXT, TEXT), Materialized.as_("table").with_rocksdb_options(TUNED))
    stream.left_join(
        stream,
        lambda one, _: one,
        JoinWindows.of_time_difference_with_no_grace(10),
        StreamJoined.as_("join").with_rocksdb_options(TUNED),
    )
    specs = [spec for part in builder.build().sub_topologies for spec in part.stores]
    assert len(specs) == 6
    assert {spec.rocksdb for spec in specs} == {TUNED}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"write_buffer_bytes": 10}, "write_buffer_bytes must be 65536 or more, not 10"),
        ({"max_write_buffers": 1}, "max_write_buffers must be 2 or more"),
        ({"compression": "gzip"}, "none, snappy, lz4, lz4hc, zstd, zlib, bz2, not 'gzip'"),
        (
            {"level0_file_num_compaction_trigger": 8, "level0_stop_writes_trigger": 4},
            r"triggers are \[8, 4\].*descending",
        ),
    ],
)
def test_tuning_out_of_range_is_refused_where_it_is_written(wrong: dict[str, object], problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        RocksDBOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"rocksdb_level0_slowdown_writes_trigger": 2}, "must ascend"),
        ({"rocksdb_write_buffers_bytes": 1 << 30}, "cannot exceed it"),
        ({"rocksdb_compression": "gzip"}, "rocksdb.compression"),
        ({"rocksdb_memory": 5}, "nearest known one is 'rocksdb.memory.bytes'"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        config(**wrong)
