"""What a socket still holds when writing to it has failed.

A client that gives up on one answer closes the connection that all its threads share. The next
write fails, and a transport whose write has failed reads no more: one-way ends that had arrived
would be lost, though their client has done all it could.
"""

import os
from asyncio import BaseTransport
from collections.abc import Iterator
from typing import Final

from halfhitch.doors.rocketmq.addresses import is_encrypted

_CHUNK_BYTES: Final = 262_144
#: More than any receive buffer holds; nobody sends any more.
_CHUNKS_MAX: Final = 256


def unread(transport: BaseTransport) -> Iterator[bytes]:
    """In chunks. To be asked while the transport says that its connection is lost: it closes the
    socket after that. Nothing from TLS, where half a record cannot be read.
    """
    socket = transport.get_extra_info("socket")
    if socket is None or is_encrypted(transport):
        return
    number = socket.fileno()
    for _ in range(_CHUNKS_MAX if number >= 0 else 0):
        try:
            data = os.read(number, _CHUNK_BYTES)
        except OSError:  # nothing there, or an error that the socket has kept
            return
        if not data:
            return
        yield data
