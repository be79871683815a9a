"""The seal: a number that proves where a half lies and whose it is, where there is no handle.

Some protocols have no room for a handle: their clients echo numbers. Half partition and half offset
in them could be made up by anybody, and ids are no secret. So one number goes with them that nobody
can make without a handle key: 56 bits of keyed BLAKE2b over half partition, half offset, producer
group and transaction id. It fits every client's 64 bits, and 17 digits. There is nothing to look up
and nothing to remember: any instance knows the seal of another one, also after a restart.

    partition u32 | half offset u64 | length of the group u32 | group | id

Keys are made of the handle keys, for one installation each, so a seal says nothing of a handle, and
none is good in another installation. The first key seals, all are taken. The native way does the
same (`native/src/seal.rs`).
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

_PLACE: Final = Struct("!IQI")
_SEAL_BYTES: Final = 7
_KEY_BYTES: Final = 32
#: What the keys are for: no other use of the handle keys has it.
_PURPOSE: Final = b"seal of a half"


def seal_key(handle_key: bytes, installation: bytes) -> bytes:
    """What one handle key seals with in one installation, of which 16 bytes are given."""
    return blake2b(
        key=handle_key, person=installation, salt=_PURPOSE, digest_size=_KEY_BYTES
    ).digest()


class Seals:
    """Makes them, and knows them again."""

    __slots__ = ("keys",)

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = tuple(keys)

    def make(self, partition: int, half_offset: int, group: str, transaction_id: str) -> int:
        """For the first message of a transaction."""
        return _seal(_said(partition, half_offset, group, transaction_id), self.keys[0])

    def fits(
        self, seal: int, partition: int, half_offset: int, group: str, transaction_id: str
    ) -> bool:
        """Whether it was made with one of our keys, for just this one."""
        said = _said(partition, half_offset, group, transaction_id)
        # Whole numbers, and all keys: how long it takes says nothing.
        return 0 in [_seal(said, key) ^ seal for key in self.keys]


def _said(partition: int, half_offset: int, group: str, transaction_id: str) -> bytes:
    raw_group = group.encode()
    place = _PLACE.pack(partition, half_offset, len(raw_group))
    return place + raw_group + transaction_id.encode()


def _seal(said: bytes, key: bytes) -> int:
    return int.from_bytes(blake2b(said, key=key, digest_size=_SEAL_BYTES).digest())
