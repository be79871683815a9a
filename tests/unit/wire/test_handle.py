"""Handles: whole and back under any known key; one altered byte and they are refused."""

import string
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from itertools import pairwise

import pytest

from halfhitch.errors import InvalidHandle, KafkaUnavailable
from halfhitch.wire.handle import TEXT_LENGTH_MAX, TOPICS_MAX, Handle, HandleCodec

KEY = b"k" * 32
OTHER_KEY = b"o" * 64
ALPHABET = string.ascii_letters + string.digits + "-_"
ONE = Handle(3, "orders", "T1", (17,))
MANY = Handle(65_535, "Bestellungen-ü", "id-€", (2**63, 1, 0), ("invoices", "audit"))
LARGEST = Handle(
    65_535,
    "g" * 255,
    "i" * 255,
    tuple(range(1_000)),
    tuple(f"{n:0249d}" for n in range(TOPICS_MAX)),
)


def codec(*keys: bytes) -> HandleCodec:
    return HandleCodec(keys or (KEY,))


def signed(body: bytes, key: bytes = KEY) -> str:
    """What a release that lays the body out so would hand out."""
    mac = blake2b(body, key=key, digest_size=16).digest()
    return urlsafe_b64encode(body + mac).rstrip(b"=").decode()


def head(*, version: int = 1, count: int = 1, topic_count: int = 0) -> bytes:
    return struct.pack("!BHHQBBB", version, 3, count, 17, 1, 1, topic_count) + b"gi"


def raw_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("handle", [ONE, MANY, LARGEST], ids=["one", "many", "largest"])
def test_a_handle_comes_back_whole(handle: Handle) -> None:
    text = codec().encode(handle)
    assert codec().decode(text) == handle
    assert set(text) <= set(ALPHABET), "it stands in a path without escapes"


def test_the_largest_handle_fits_into_what_is_taken() -> None:
    assert len(codec().encode(LARGEST)) <= TEXT_LENGTH_MAX


def test_a_handle_of_an_earlier_day_is_still_understood() -> None:
    """The layout is a contract: handles are out while releases change."""
    text = "AQADAAEAAAAAAAAAEQEBAGdp-4n7Cs6MeLOCNOuRcEfHhA"
    assert signed(head()) == text
    for installation in ("", "production", "staging.shop-"):
        assert HandleCodec([KEY], installation).decode(text) == Handle(3, "g", "i", (17,))
    bound = "AgADAAEAAAAAAAAAEQEBAGdp"
    assert codec().encode(Handle(3, "g", "i", (17,))).startswith(bound)


def test_one_key_in_staging_and_production_does_not_make_a_handle_valid_in_both() -> None:
    codecs = {name: HandleCodec([KEY], name) for name in ("c1", "c2", "c1.shop-", "c1.s")}
    for name, one in codecs.items():
        text = one.encode(MANY)
        assert one.decode(text) == MANY
        for other, another in codecs.items():
            if other != name:
                with pytest.raises(InvalidHandle, match=r"another Kafka cluster, topics\.prefix"):
                    another.decode(text)


def test_a_handle_of_now_cannot_be_passed_off_as_one_of_an_earlier_day() -> None:
    raw = bytearray(raw_of(HandleCodec([KEY], "staging").encode(ONE)))
    raw[0] = 1
    with pytest.raises(InvalidHandle):
        HandleCodec([KEY], "production").decode(urlsafe_b64encode(raw).rstrip(b"=").decode())


def test_before_the_cluster_is_known_no_handle_is_called_invalid() -> None:
    """To a client that would be the end of it, and the instance has only just started."""
    starting = HandleCodec([KEY], None)
    text = HandleCodec([KEY], "c1").encode(ONE)
    for attempt in (lambda: starting.decode(text), lambda: starting.encode(ONE)):
        with pytest.raises(KafkaUnavailable, match="try again"):
            attempt()
    starting.bind("c1")
    assert starting.decode(text) == ONE
    assert starting.encode(ONE) == text


def test_what_signs_is_the_first_key_and_the_installation() -> None:
    made = HandleCodec([KEY, OTHER_KEY], "a cluster")
    key, person = made.signer
    raw = raw_of(made.encode(ONE))
    assert key == KEY
    assert raw[-16:] == blake2b(raw[:-16], key=key, person=person, digest_size=16).digest()
    with pytest.raises(KafkaUnavailable):
        _ = HandleCodec([KEY], None).signer


def test_a_key_is_rotated_without_refusing_a_handle_at_any_moment() -> None:
    """A; A,B; B,A; B: while one step is rolled out, instances of two steps stand side by side."""
    a, b = KEY, OTHER_KEY
    steps = [codec(a), codec(a, b), codec(b, a), codec(b)]
    for before, after in pairwise(steps):
        for signer, reader in ((before, after), (after, before)):
            assert reader.decode(signer.encode(MANY)) == MANY
    with pytest.raises(InvalidHandle):  # the step in between is what makes it safe
        steps[0].decode(steps[2].encode(MANY))


def test_after_a_change_of_the_key_old_handles_are_taken_and_new_ones_signed_with_the_new() -> None:
    old = codec(KEY).encode(MANY)
    both = codec(OTHER_KEY, KEY)
    assert both.decode(old) == MANY
    new = both.encode(MANY)
    assert new != old
    assert codec(OTHER_KEY).decode(new) == MANY
    with pytest.raises(InvalidHandle, match="HALFHITCH_HANDLE_KEY"):
        codec(KEY).decode(new)


@pytest.mark.parametrize("key", [b"k" * 65, b"0f" * 64, b"k" * 10_000], ids=len)
def test_a_key_longer_than_the_signature_takes_signs_all_the_same(key: bytes) -> None:
    """`openssl rand -hex 64` prints 128 characters."""
    text = codec(key).encode(MANY)
    assert codec(OTHER_KEY, key).decode(text) == MANY
    for other in (key[:64], key[:-1], key + b"k"):
        with pytest.raises(InvalidHandle):
            codec(other).decode(text)


def test_a_handle_of_another_installation_is_refused_and_says_what_to_do() -> None:
    with pytest.raises(InvalidHandle, match="set the same HALFHITCH_HANDLE_KEY everywhere"):
        codec(OTHER_KEY).decode(codec(KEY).encode(ONE))


@pytest.mark.parametrize("handle", [ONE, MANY], ids=["one", "many"])
def test_every_altered_byte_is_refused(handle: Handle) -> None:
    raw = raw_of(codec().encode(handle))
    for place in range(len(raw)):
        for flip in (0x01, 0x80, 0xFF):
            altered = bytearray(raw)
            altered[place] ^= flip
            with pytest.raises(InvalidHandle):
                codec().decode(urlsafe_b64encode(altered).rstrip(b"=").decode())


def test_every_altered_character_is_refused_even_where_its_bits_do_not_count() -> None:
    text = codec().encode(ONE)
    for place in range(len(text)):
        for character in ALPHABET + "=+/ %\n\x00é":
            if character != text[place]:
                with pytest.raises(InvalidHandle):
                    codec().decode(text[:place] + character + text[place + 1 :])


def test_every_shortened_or_lengthened_text_is_refused() -> None:
    text = codec().encode(MANY)
    broken = [text[:length] for length in range(len(text))]
    broken += [text + "A", text + "=", "=" + text, text + "\n", " " + text, text + text]
    for one in broken:
        with pytest.raises(InvalidHandle):
            codec().decode(one)


@pytest.mark.parametrize(
    "text",
    ["", "A", "====", "not a handle", "häkchen", "\ud800", "A" * 47, "A" * (TEXT_LENGTH_MAX + 1)],
)
def test_what_is_no_handle_is_refused_with_advice(text: str) -> None:
    with pytest.raises(InvalidHandle, match=r"send it exactly as prepare|not signed"):
        codec().decode(text)


@pytest.mark.parametrize(
    "body",
    [
        head(version=3),
        head(version=0),
        head(count=0),
        head(count=2),
        head() + b"more",
        head(topic_count=1),
        head(topic_count=2) + b"\x01a",
        head(topic_count=1) + b"\x01a" + b"\x01b",
    ],
    ids=[
        "version 3",
        "version 0",
        "no message",
        "offset missing",
        "something behind",
        "topic missing",
        "second topic missing",
        "one topic too many",
    ],
)
def test_a_handle_of_a_release_that_lays_it_out_otherwise_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidHandle, match="which this release does not know"):
        codec().decode(signed(body))


def test_the_last_one_is_remembered_and_no_other_text_passes_for_it() -> None:
    known = codec()
    text, other = known.encode(ONE), known.encode(MANY)
    assert known.decode(text) is known.decode(text)
    for wrong in (text[:-1], text + "A", text.swapcase(), ""):
        with pytest.raises(InvalidHandle):
            known.decode(wrong)
    assert known.decode(other) == MANY
    assert known.decode(text) == ONE


def test_a_handle_of_another_installation_is_not_remembered_as_one_of_this() -> None:
    known = HandleCodec((KEY,), "one")
    text = known.encode(ONE)
    assert known.decode(text) == ONE
    known.bind("another")
    with pytest.raises(InvalidHandle):
        known.decode(text)
