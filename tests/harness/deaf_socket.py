"""A machine that is gone, as the other side of a TCP connection sees it."""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Any

_SO_ATTACH_FILTER = 26
_BPF_RETURN = 0x06


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jump_if", ctypes.c_ubyte),
        ("jump_else", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


def make_deaf(plain: Any) -> None:
    """Let the kernel drop whatever arrives for this socket before TCP sees it.

    Nothing is acknowledged any more, and no end is told: a half-open connection.
    """
    drop_all = _Instruction(_BPF_RETURN, 0, 0, 0)
    program = struct.pack("HL", 1, ctypes.addressof(drop_all))
    plain.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
