"""A stored message as bytes, the way RocketMQ's clients read one: the body of a check.

Fields and their order are RocketMQ's; version 2 of the form is taken for topics of more than 127
bytes, whose length does not fit one byte.
"""

import ipaddress
import zlib
from struct import Struct
from typing import Final

import msgspec

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.ids import address_bytes
from halfhitch.wire.remoting.properties import (
    PROPERTIES_BYTES_MAX,
    read_properties,
    write_properties,
)

MAGIC_V1: Final = -626_843_481
MAGIC_V2: Final = -626_843_477
TOPIC_BYTES_MAX_V1: Final = 127
TOPIC_BYTES_MAX: Final = 32_767

Host = tuple[str, int]

#: total, magic, crc, queue id, flag, queue offset, physical offset, sysFlag, born.
_START: Final = Struct(">iiiiiqqiq")
_PORT: Final = Struct(">i")
_STORED_MS: Final = Struct(">q")
#: reconsume times, prepared transaction offset, body length.
_BEFORE_BODY: Final = Struct(">iqi")
_CRC_MASK: Final = 0x7FFFFFFF


class EncodedMessage(msgspec.Struct):
    """Everything an encoded message says."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    born_ms: int
    born_host: Host
    stored_ms: int
    store_host: Host
    body: bytes
    properties: dict[str, str]
    sys_flag: int = 0  # the bits of IPv6 are set from the hosts
    flag: int = 0
    reconsume_count: int = 0
    prepared_offset: int = 0


def encode_message(message: EncodedMessage) -> bytes:
    """RemotingError when topic or properties are too long for the form."""
    topic = message.topic.encode()
    properties = write_properties(message.properties).encode()
    if not topic or len(topic) > TOPIC_BYTES_MAX or len(properties) > PROPERTIES_BYTES_MAX:
        raise RemotingError(
            codes.MESSAGE_ILLEGAL,
            f"a topic of {len(topic)} bytes with properties of {len(properties)} does not fit "
            f"the form: {TOPIC_BYTES_MAX} and {PROPERTIES_BYTES_MAX} do",
        )
    is_long = len(topic) > TOPIC_BYTES_MAX_V1
    born_host, born_is_v6 = _write_host(message.born_host)
    store_host, store_is_v6 = _write_host(message.store_host)
    sys_flag = message.sys_flag & ~(codes.BORN_HOST_IPV6 | codes.STORE_HOST_IPV6)
    sys_flag |= codes.BORN_HOST_IPV6 * born_is_v6 | codes.STORE_HOST_IPV6 * store_is_v6
    body = message.body
    tail = (
        born_host,
        _STORED_MS.pack(message.stored_ms),
        store_host,
        _BEFORE_BODY.pack(message.reconsume_count, message.prepared_offset, len(body)),
        body,
        len(topic).to_bytes(2 if is_long else 1, "big"),
        topic,
        len(properties).to_bytes(2, "big"),
        properties,
    )
    start = _START.pack(
        _START.size + sum(map(len, tail)),
        MAGIC_V2 if is_long else MAGIC_V1,
        zlib.crc32(body) & _CRC_MASK,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.commit_log_offset,
        sys_flag,
        message.born_ms,
    )
    return b"".join((start, *tail))


def _write_host(host: Host) -> tuple[bytes, bool]:
    address = address_bytes(host[0])
    return address + _PORT.pack(host[1]), len(address) > 4  # more than IPv4 has


def decode_message(content: bytes) -> EncodedMessage:
    """One whole encoded message. RemotingError for anything else."""
    try:
        return _decode(content)
    except ValueError:  # includes UnicodeDecodeError
        raise RemotingError(codes.MESSAGE_ILLEGAL, "the encoded message does not parse") from None


class _Reader:
    """Walks over the bytes; ValueError at their end."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.content[self.at : self.at + size]
        if size < 0 or len(part) != size:
            raise ValueError("too short")
        self.at += size
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def host(self, *, is_v6: bool) -> Host:
        address = ipaddress.ip_address(self.take(16 if is_v6 else 4))
        (port,) = _PORT.unpack(self.take(4))
        return str(address), port


def _decode(content: bytes) -> EncodedMessage:
    reader = _Reader(content)
    total, magic, crc, queue_id, flag, queue_offset, commit_log_offset, sys_flag, born_ms = (
        _START.unpack(reader.take(_START.size))
    )
    if total != len(content) or magic not in (MAGIC_V1, MAGIC_V2):
        raise ValueError("wrong length or magic")
    born_host = reader.host(is_v6=sys_flag & codes.BORN_HOST_IPV6 != 0)
    (stored_ms,) = _STORED_MS.unpack(reader.take(_STORED_MS.size))
    store_host = reader.host(is_v6=sys_flag & codes.STORE_HOST_IPV6 != 0)
    reconsume_count, prepared_offset, body_bytes = _BEFORE_BODY.unpack(
        reader.take(_BEFORE_BODY.size)
    )
    body = reader.take(body_bytes)
    topic = reader.take(reader.number(2 if magic == MAGIC_V2 else 1)).decode()
    properties = reader.take(reader.number(2)).decode()
    if reader.at != total or crc != zlib.crc32(body) & _CRC_MASK:
        raise ValueError("too long, or a damaged body")
    return EncodedMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=commit_log_offset,
        born_ms=born_ms,
        born_host=born_host,
        stored_ms=stored_ms,
        store_host=store_host,
        body=body,
        properties=read_properties(properties),
        sys_flag=sys_flag,
        flag=flag,
        reconsume_count=reconsume_count,
        prepared_offset=prepared_offset,
    )
