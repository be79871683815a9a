"""Offset message ids: where a message lies, as 32 (IPv4) or 56 (IPv6) hexadecimal digits.

Address of the store, port and position, all in capitals. Clients read the position back out of it
when they end a transaction, so an id of ours must always have this form. Ids that clients make
(UNIQ_KEY) are opaque and not read anywhere.
"""

import ipaddress
from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

_END: Final = Struct(">iq")
_POSITION_MASK: Final = 2**64 - 1
_DIGITS_TO_ADDRESS_BYTES: Final = {32: 4, 56: 16}


class MessageIds:
    """Makes the ids of one advertised address. Positions must not be negative."""

    __slots__ = ("_prefix", "address", "port")

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.port = port
        self._prefix = f"{address_bytes(address).hex()}{port:08x}".upper()

    def make(self, commit_log_offset: int) -> str:
        return f"{self._prefix}{commit_log_offset & _POSITION_MASK:016X}"


def address_bytes(address: str) -> bytes:
    """Four or sixteen bytes. ValueError for what is no IP address."""
    return ipaddress.ip_address(address).packed


def read_message_id(message_id: str) -> tuple[str, int, int]:
    """Address, port and position. RemotingError for what is no offset message id."""
    size = _DIGITS_TO_ADDRESS_BYTES.get(len(message_id))
    try:
        if size is None:
            raise ValueError
        content = bytes.fromhex(message_id)
        if len(content) != size + _END.size:  # there were spaces between the digits
            raise ValueError
    except ValueError:
        raise RemotingError(
            codes.INVALID_PARAMETER,
            f"{message_id[:80]!r} is no offset message id: 32 or 56 hexadecimal digits are",
        ) from None
    port, commit_log_offset = _END.unpack_from(content, size)
    return str(ipaddress.ip_address(content[:size])), port, commit_log_offset
