"""Bodies that clients compressed with LZ4 or Zstandard."""

from __future__ import annotations

import lz4.frame
import pytest
import zstandard

from halfhitch.doors.rocketmq import inflaters
from halfhitch.wire.remoting.codes import Compression
from halfhitch.wire.remoting.compression import inflate
from halfhitch.wire.remoting.faults import RemotingError

BODY = b"0123456789" * 1_000
COMPRESSED = {
    Compression.LZ4: lz4.frame.compress(BODY),
    Compression.ZSTD: zstandard.ZstdCompressor().compress(BODY),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_body_is_given_as_it_was(kind: Compression) -> None:
    assert inflaters.available()[kind](COMPRESSED[kind], len(BODY)) == BODY
    found = inflate(COMPRESSED[kind], 1 | kind << 8, len(BODY), inflaters.available())
    assert found == BODY


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_body_never_becomes_larger_than_one_byte_too_many(kind: Compression) -> None:
    inflater = inflaters.available()[kind]
    assert len(inflater(COMPRESSED[kind], 100)) == 101


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("broken", [b"", b"garbage", None])
def test_a_broken_body_is_refused(kind: Compression, broken: bytes | None) -> None:
    body = COMPRESSED[kind][:-5] if broken is None else broken
    with pytest.raises(RemotingError, match=kind.name):
        inflate(body, 1 | kind << 8, len(BODY), inflaters.available())


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("rest", [b"\0", None])
def test_what_lies_behind_a_body_is_not_dropped_in_silence(
    kind: Compression, rest: bytes | None
) -> None:
    body = COMPRESSED[kind] + (COMPRESSED[kind] if rest is None else rest)
    with pytest.raises(RemotingError, match="follow its end"):
        inflate(body, 1 | kind << 8, 10 * len(BODY), inflaters.available())


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(inflaters, "import_module", missing)
    inflaters.available.cache_clear()
    try:
        assert inflaters.available() == {}
        with pytest.raises(RemotingError, match=r"halfhitch\[rocketmq\]"):
            inflate(COMPRESSED[Compression.LZ4], 0x101, 100, inflaters.available())
    finally:
        inflaters.available.cache_clear()
