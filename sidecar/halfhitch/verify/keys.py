"""Where Kafka's clients put a key: murmur2, as Java's producer takes it. Pure."""

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def key_hash(key: bytes) -> int:
    """Murmur2 as Java's producer takes it: a keyed record lies in this partition, modulo their
    number.
    """
    length = len(key)
    state = _SEED ^ length
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _FACTOR & _MASK
        state = (state * _FACTOR & _MASK) ^ ((word ^ word >> 24) * _FACTOR & _MASK)
    if whole < length:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return (state ^ state >> 15) & 0x7FFFFFFF
