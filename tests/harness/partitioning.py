"""Where a Java producer sends a keyed record, computed apart from any Kafka client.

Murmur2 in the 32-bit form with Kafka's seed; the vectors in tests/unit/harness prove it.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number."""
    length = len(data)
    state = _SEED ^ length
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        state = (state * _M & _MASK) ^ word
    rest = data[whole:]
    if rest:
        state = (state ^ int.from_bytes(rest, "little")) * _M & _MASK
    state = (state ^ state >> 13) * _M & _MASK
    return state ^ state >> 15


def java_partition(key: bytes, partition_count: int) -> int:
    """The partition of a keyed record."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
