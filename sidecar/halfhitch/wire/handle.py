"""The handle: what a caller holds, so that any instance can end its transaction without a look-up.

    base64url( version u8 | partition u16 | count u16 | first offset u64 | group length u8
               | id length u8 | topic count u8 | group | id | further offsets, each u64
               | topics, each with its length u8 before it | MAC of 16 bytes )

The MAC (keyed BLAKE2b over everything before it) binds partition, group, id and offsets: an id can
neither be guessed nor moved to another partition or group. Since version 2 it binds the
installation, too (Kafka's cluster and `topics.prefix`): one key that is used in staging and in
production does not make handles that are valid in both. Version 1 bound none; its handles are taken
until release 1.0. The first key signs, all keys verify, so that a key can be changed without
refusing the handles that are out: `A`, then `A,B` everywhere, then `B,A` everywhere, then `B`.
"""

import binascii
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from halfhitch.errors import InvalidHandle, KafkaUnavailable
from halfhitch.wire.seal import Seals, seal_key

_VERSION: Final = 2
_UNBOUND_VERSION: Final = 1
_HEAD: Final = struct.Struct("!BHHQBBB")
_MAC_BYTES: Final = 16
#: Base64 to base64url and back: `base64`'s own functions do the same through two more calls.
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
#: 1,000 messages, the longest ids and topics: it must fit into the first line of a request.
TEXT_LENGTH_MAX: Final = 24_000
#: More distinct topics are left out; they are needed only to wait until messages are visible.
TOPICS_MAX: Final = 16
_KEY_BYTES_MAX: Final = 64  # BLAKE2b takes no longer key


@dataclass(slots=True)
class Handle:
    """The content of a handle."""

    partition: int
    producer_group: str
    transaction_id: str
    half_offsets: tuple[int, ...]
    topics: tuple[str, ...] = ()  # distinct, as far as they are carried


class HandleCodec:
    """Handles to text and back, under keys of at least 16 bytes each (the first one signs)."""

    def __init__(self, keys: Sequence[bytes], installation: str | None = "") -> None:
        """`installation`: whose handles these are; None: not known before `bind`."""
        self._keys = tuple([_fitting(key) for key in keys])
        self._signing = self._keys[0]
        self._person: bytes | None = None
        self._seals: Seals | None = None
        # The last one read: a door reads whose it is, and the service reads it again.
        self._last: tuple[str, Handle] | None = None
        if installation is not None:
            self.bind(installation)

    def bind(self, installation: str) -> None:
        """From now on handles are signed and taken for this one."""
        person = blake2b(installation.encode(), digest_size=_MAC_BYTES).digest()
        self._person, self._last = person, None
        self._seals = Seals([seal_key(key, person) for key in self._keys])

    @property
    def seals(self) -> Seals:
        """What stands for handles where there is no room for them. As `encode` it needs `bind`."""
        if self._seals is None:
            raise _unbound()
        return self._seals

    @property
    def signer(self) -> tuple[bytes, bytes]:
        """The key that signs, and what binds it to the installation; needs `bind` too."""
        return self._signing, self._known_person()

    def _known_person(self) -> bytes:
        if self._person is None:
            raise _unbound()
        return self._person

    def encode(self, handle: Handle) -> str:
        """URL-safe text without padding. Raises KafkaUnavailable before `bind`."""
        group = handle.producer_group.encode()
        transaction_id = handle.transaction_id.encode()
        first, *further = handle.half_offsets
        body = (
            _HEAD.pack(
                _VERSION,
                handle.partition,
                len(handle.half_offsets),
                first,
                len(group),
                len(transaction_id),
                len(handle.topics),
            )
            + group
            + transaction_id
        )
        if further:
            body += struct.pack(f"!{len(further)}Q", *further)
        for topic in handle.topics:
            body += bytes((len(topic),)) + topic.encode()
        mac = _mac(body, self._signing, self._known_person())
        return _to_text(body + mac).decode()

    def decode(self, text: str) -> Handle:
        """Raises InvalidHandle, which tells a broken text from a foreign signature.

        And KafkaUnavailable before `bind`.
        """
        last = self._last
        if last is not None and last[0] == text:
            return last[1]
        raw = _from_text(text)
        body, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        person = self._known_person() if raw[0] == _VERSION else b""
        for key in self._keys:
            if hmac.compare_digest(_mac(body, key, person), mac):
                handle = _parse(body)
                self._last = text, handle
                return handle
        raise InvalidHandle(
            "the handle was not signed by this coordinator: it was altered, or it comes from an "
            "installation with another Kafka cluster, topics.prefix or handle key (set the same "
            "HALFHITCH_HANDLE_KEY everywhere)"
        )


def _unbound() -> KafkaUnavailable:
    return KafkaUnavailable(
        "Kafka has not been reached since this instance started, so it cannot tell whether the "
        "handle is one of its own: try again in a second"
    )


def _mac(body: bytes, key: bytes, person: bytes) -> bytes:
    return blake2b(body, key=key, person=person, digest_size=_MAC_BYTES).digest()


def _fitting(key: bytes) -> bytes:
    """As HMAC does it: a key that is too long is replaced by its hash, no byte of it is lost."""
    return key if len(key) <= _KEY_BYTES_MAX else blake2b(key).digest()


def _to_text(raw: bytes) -> bytes:
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL, b"=")


def _from_text(text: str) -> bytes:
    raw = given = b""
    if len(text) <= TEXT_LENGTH_MAX and text.isascii():
        given = text.encode()
        try:
            raw = binascii.a2b_base64(given.translate(_FROM_URL) + b"=" * (-len(given) % 4))
        except binascii.Error:
            raw = b""
    # Base64 decoders pass over strangers in the text and spare bits at its end: two texts must not
    # mean one handle.
    if len(raw) <= _HEAD.size + _MAC_BYTES or _to_text(raw) != given:
        raise InvalidHandle("the handle is broken: send it exactly as prepare returned it")
    return raw


def _parse(body: bytes) -> Handle:
    """Of a body whose MAC is right; a mismatch here means a handle of another version."""
    version, partition, count, first, group_length, id_length, topic_count = _HEAD.unpack_from(body)
    group_end = _HEAD.size + group_length
    id_end = group_end + id_length
    offsets_end = id_end + 8 * (count - 1)
    if version not in (_VERSION, _UNBOUND_VERSION) or count == 0 or len(body) < offsets_end:
        raise _unknown_version(version)
    further = struct.unpack_from(f"!{count - 1}Q", body, id_end) if count > 1 else ()
    topics = []
    position = offsets_end
    for _ in range(topic_count):
        topic = body[position + 1 : position + 1 + body[position]] if position < len(body) else b""
        topics.append(topic.decode())
        position += 1 + len(topic)
    if position != len(body):
        raise _unknown_version(version)
    return Handle(
        partition,
        body[_HEAD.size : group_end].decode(),
        body[group_end:id_end].decode(),
        (first, *further),
        tuple(topics),
    )


def _unknown_version(version: int) -> InvalidHandle:
    return InvalidHandle(f"the handle has version {version}, which this release does not know")
