"""Bodies that the client compressed, undone without ever making more than was allowed.

zlib is always there. LZ4 and Zstandard need packages that this layer does not import: whoever has
them gives their functions along (`Inflaters`).
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from halfhitch import extras
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.codes import Compression
from halfhitch.wire.remoting.faults import RemotingError

#: Undoes one compression. Gets the body and a limit, gives at most limit + 1 bytes (one more than
#: allowed says "too many"), ValueError when the body is broken, or has not its end at its end.
Inflater = Callable[[bytes, int], bytes]
Inflaters = Mapping[Compression, Inflater]


def inflate_zlib(body: bytes, limit_bytes: int) -> bytes:
    """zlib's own format, as Java's Deflater writes it."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(inflated) <= limit_bytes:
        check_end(is_whole=stream.eof, rest=stream.unused_data)
    return inflated


def check_end(*, is_whole: bool, rest: bytes) -> None:
    """Raises ValueError: what lies behind the end would be dropped, and success be answered."""
    if not is_whole:
        raise ValueError("it ends too early")
    if rest:
        raise ValueError(f"{len(rest)} bytes follow its end")


_ALWAYS: Final[Inflaters] = {
    Compression.UNSPECIFIED: inflate_zlib,
    Compression.ZLIB: inflate_zlib,
}


def inflate(body: bytes, sys_flag: int, limit_bytes: int, others: Inflaters = _ALWAYS) -> bytes:
    """The body as the application gave it. RemotingError when that cannot be had."""
    if not sys_flag & codes.COMPRESSED:
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        return body
    number = (sys_flag & codes.COMPRESSION_MASK) >> codes.COMPRESSION_SHIFT
    try:
        kind = Compression(number)
    except ValueError:
        raise RemotingError(
            codes.MESSAGE_ILLEGAL, f"the body is compressed in a way ({number}) not known here"
        ) from None
    inflater = _ALWAYS.get(kind) or others.get(kind)
    if inflater is None:
        raise RemotingError(
            codes.MESSAGE_ILLEGAL,
            f"the body is compressed with {kind.name}, which this server cannot undo: install "
            f"halfhitch[{extras.ROCKETMQ}] there, or let the client compress with zlib",
        )
    try:
        inflated = inflater(body, limit_bytes)
    except ValueError as error:
        raise RemotingError(
            codes.MESSAGE_ILLEGAL, f"the body is no {kind.name} as its sysFlag says: {error}"
        ) from None
    if len(inflated) > limit_bytes:
        raise _too_large(limit_bytes)
    return inflated


def _too_large(limit_bytes: int) -> RemotingError:
    return RemotingError(
        codes.MESSAGE_ILLEGAL,
        f"the body has more than {limit_bytes} bytes: send smaller messages, or raise the limit",
    )
