"""Which half partition a transaction lives in: for ever, and the same on every instance.

A retried prepare must land where the first try landed, or two ledgers would forward one
transaction. So the partition is a function of the request alone, and the number of half partitions
cannot change while anything is pending. CRC-32 is fixed by contract: changing it is changing the
number of partitions.
"""

from zlib import crc32


def half_partition(
    first_key: bytes | None, transaction_id: str | None, partition_count: int
) -> int | None:
    """By the first message's key (keeps commit order per key), else by the id; None: any."""
    if first_key is not None:
        return crc32(first_key) % partition_count
    if transaction_id is not None:
        return crc32(transaction_id.encode()) % partition_count
    return None
