"""Where Kafka's clients put a key, against vectors of Java's client and the harness's own."""

import random

import pytest

from halfhitch.verify.keys import key_hash
from harness.partitioning import murmur2


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_javas_vectors(key: bytes, hashed: int) -> None:
    assert key_hash(key) == hashed & 0x7FFFFFFF


def test_keys_of_any_length() -> None:
    seed = random.randrange(10**9)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(500):
        key = dice.randbytes(dice.randrange(40))
        assert key_hash(key) == murmur2(key) & 0x7FFFFFFF
