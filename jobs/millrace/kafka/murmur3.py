"""The hash by which a foreign-key join identifies a row's value: murmur3, 128 bits, with Kafka Streams' seed."""

from __future__ import annotations

import struct

from mmh3 import mmh3_x64_128_utupledigest

_SEED = 104729
_pack = struct.Struct(">QQ").pack


def hash128(data: bytes) -> bytes:
    """Returns the two halves of the hash, big-endian, as Kafka Streams writes them.

    Source: ``org.apache.kafka.streams.state.internals.Murmur3.hash128``; the algorithm of A. Appleby for 64-bit
    machines.
    """
    return _pack(*mmh3_x64_128_utupledigest(data, _SEED))
