"""Compressed bodies: undone within the limit, or refused with what to do about it."""

from __future__ import annotations

import zlib

import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.codes import Compression
from halfhitch.wire.remoting.compression import inflate, inflate_zlib
from halfhitch.wire.remoting.faults import RemotingError

PLAIN = b"compress me compress me compress me compress me"
#: By the Java client's own compressor.
ZLIB = bytes.fromhex("785e4bcecf2d284a2d2e56c84d554826cc0600aff611d9")
LZ4_FLAG, ZSTD_FLAG, ZLIB_FLAG = 0x101, 0x201, 0x301


def test_a_plain_body_is_as_it_is() -> None:
    assert inflate(ZLIB, 0x300, 100) == ZLIB
    with pytest.raises(RemotingError, match="more than 46 bytes"):
        inflate(PLAIN, 0, 46)


@pytest.mark.parametrize("sys_flag", [codes.COMPRESSED, ZLIB_FLAG, ZLIB_FLAG | 4])
def test_zlib_is_always_there(sys_flag: int) -> None:
    assert inflate(ZLIB, sys_flag, 47) == PLAIN
    assert inflate(ZLIB, sys_flag, 47, {}) == PLAIN


def test_nothing_is_made_beyond_the_limit() -> None:
    bomb = zlib.compress(bytes(10_000_000), 9)
    assert len(inflate_zlib(bomb, 1_000)) == 1_001
    with pytest.raises(RemotingError, match="more than 1000 bytes") as caught:
        inflate(bomb, ZLIB_FLAG, 1_000)
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL
    with pytest.raises(RemotingError, match="more than 46 bytes"):
        inflate(ZLIB, ZLIB_FLAG, 46)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"plain", "is no ZLIB"),
        (ZLIB[:-1], "ends too early"),
        (b"", "too early"),
        (ZLIB + ZLIB, "23 bytes follow its end"),
        (ZLIB + b"x", "1 bytes follow its end"),
    ],
)
def test_a_broken_body_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(RemotingError, match=reason) as caught:
        inflate(body, ZLIB_FLAG, 1_000)
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize("sys_flag", [LZ4_FLAG, ZSTD_FLAG])
def test_without_its_package_a_body_is_refused_with_the_extra(sys_flag: int) -> None:
    with pytest.raises(RemotingError, match=r"install halfhitch\[rocketmq\]") as caught:
        inflate(b"?", sys_flag, 1_000)
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL


def test_others_may_be_brought_along() -> None:
    others = {Compression.LZ4: lambda body, limit_bytes: body * limit_bytes}
    assert inflate(b"x", LZ4_FLAG, 1, others) == b"x"
    with pytest.raises(RemotingError, match="more than 3 bytes"):
        inflate(b"xx", LZ4_FLAG, 3, others)
    with pytest.raises(RemotingError, match="ZSTD, which this server cannot undo"):
        inflate(b"x", ZSTD_FLAG, 1, others)


def test_a_compression_of_the_future_is_refused() -> None:
    with pytest.raises(RemotingError, match=r"a way \(7\) not known here"):
        inflate(b"x", 0x701, 1)
