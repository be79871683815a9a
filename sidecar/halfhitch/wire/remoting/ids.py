"""Offset message ids: where a message lies, as 32 (IPv4) or 56 (IPv6) hexadecimal digits.

Address of the store, port and position, all in capitals. Clients read the position back out of it
when they end a transaction, so an id of ours must always have this form. Ids that clients make
(UNIQ_KEY) are opaque; their beginning, which stays the same in a process, is told apart by length.
"""

import ipaddress
from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

_END: Final = Struct(">iq")
_POSITION_MASK: Final = 2**64 - 1
_DIGITS_TO_ADDRESS_BYTES: Final = {32: 4, 56: 16}
#: Digits at the end of a client's id that are not the same for all messages of its process: time
#: and counter, after address, process number and a hash; newer ids have longer ones.
_DIGITS_OF_MESSAGE: Final = {32: 12, 56: 12, 34: 16}


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


def maker_of(unique_key: str) -> str:
    """What the ids of one client process begin with; of another form: the whole id."""
    digits = _DIGITS_OF_MESSAGE.get(len(unique_key))
    return unique_key if digits is None else unique_key[:-digits]
