"""Murmur2 of the harness against values that Apache Kafka's own tests state."""

from __future__ import annotations

import pytest

from harness.partitioning import java_partition, murmur2


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_gives_what_kafkas_java_client_gives(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed % 2**32
    assert java_partition(text.encode(), 7) == (signed & 0x7FFFFFFF) % 7
