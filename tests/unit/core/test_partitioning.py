"""Where a transaction lives is a contract: these numbers may never change."""

import pytest

from halfhitch.core.partitioning import half_partition


@pytest.mark.parametrize(
    ("first_key", "transaction_id", "partition_count", "partition"),
    [
        (b"123456789", None, 1 << 32, 0xCBF43926),  # the check value every CRC-32 table gives
        (b"123456789", None, 12, 0xCBF43926 % 12),
        (b"123456789", "other", 12, 0xCBF43926 % 12),  # the key goes before the id
        (None, "123456789", 12, 0xCBF43926 % 12),
        (b"", "123456789", 12, 0),  # an empty key is a key
        (None, "", 12, 0),
        (None, None, 12, None),
    ],
)
def test_the_partition_is_the_same_on_every_instance_for_ever(
    first_key: bytes | None, transaction_id: str | None, partition_count: int, partition: int | None
) -> None:
    assert half_partition(first_key, transaction_id, partition_count) == partition


def test_an_id_counts_by_its_utf8_bytes() -> None:
    by_key = half_partition(b"zw\xc3\xb6lf", None, 1 << 32)
    assert half_partition(None, "zwölf", 1 << 32) == by_key


def test_every_partition_gets_its_share() -> None:
    shares = [0] * 12
    for number in range(12_000):
        partition = half_partition(None, f"order-{number}", 12)
        assert partition is not None
        shares[partition] += 1
    assert min(shares) > 800
    assert max(shares) < 1_200
