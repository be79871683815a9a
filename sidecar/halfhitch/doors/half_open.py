"""Connections whose other end has gone without a word."""

import asyncio
import socket
from typing import Final

_TCP_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)


def notice_half_open(transport: asyncio.BaseTransport, unacknowledged_s: float) -> None:
    """Have the kernel end the connection when what was sent is not acknowledged for so long.

    Without it the kernel would go on repeating it for a quarter of an hour; a producer whose
    machine is gone would count as live all the while, and checks written to it as delivered.
    """
    found = transport.get_extra_info("socket")
    is_tcp = found is not None and found.family in (socket.AF_INET, socket.AF_INET6)
    if is_tcp and _TCP_USER_TIMEOUT is not None:
        try:
            found.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(unacknowledged_s * 1000))
        except OSError:
            pass  # the connection is broken already, or the platform refuses: as without it
