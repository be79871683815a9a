"""LZ4 and Zstandard, when the extra "rocketmq" is installed; zlib needs no package.

Java clients compress with zlib unless they are told otherwise. Every inflater gives at most one
byte more than the limit, whatever the body says of its own size.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

from halfhitch.wire.remoting.codes import Compression
from halfhitch.wire.remoting.compression import Inflater, Inflaters, check_end

#: A frame says how much memory it wants; the levels that clients use need a quarter of this.
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024


@cache
def available() -> Inflaters:
    """Those whose package is there."""
    found: dict[Compression, Inflater] = {}
    for kind, package, make in (
        (Compression.LZ4, "lz4.frame", _lz4),
        (Compression.ZSTD, "zstandard", _zstd),
    ):
        try:
            found[kind] = make(import_module(package))
        except ImportError:
            continue  # such a body is refused with the name of the extra
    return found


def _lz4(package: Any) -> Inflater:
    def inflate_lz4(body: bytes, limit_bytes: int) -> bytes:
        try:
            stream = package.LZ4FrameDecompressor()
            inflated: bytes = stream.decompress(body, limit_bytes + 1)
        except (RuntimeError, EOFError) as error:
            raise ValueError(str(error)) from None
        if len(inflated) <= limit_bytes:
            check_end(is_whole=stream.eof, rest=stream.unused_data or b"")
        return inflated

    return inflate_lz4


def _zstd(package: Any) -> Inflater:
    def inflate_zstd(body: bytes, limit_bytes: int) -> bytes:
        machine = package.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        try:
            with machine.stream_reader(body) as reader:
                inflated: bytes = reader.read(limit_bytes + 1)
            if len(inflated) <= limit_bytes:
                # Only this tells whether the body was whole; how much it gives is known by now.
                stream = machine.decompressobj()
                stream.decompress(body)
                check_end(is_whole=stream.eof, rest=stream.unused_data)
        except package.ZstdError as error:
            raise ValueError(str(error)) from None
        return inflated

    return inflate_zstd
