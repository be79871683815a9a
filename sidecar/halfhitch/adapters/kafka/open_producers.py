"""Who has a Kafka transaction open in a partition: DescribeProducers, asked of its leader.

librdkafka does not speak this request, so this speaks the one by hand (api key 61, version 0). It
is for people: an answer that does not come, or that needs a way to the broker which is not built
here (SASL), is None, and whoever tells them says how to find it out.
"""

import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

_DESCRIBE_PRODUCERS: Final = 61
_CLIENT_ID: Final = b"halfhitch-doctor"
_ANSWER_S: Final = 3.0
#: A partition has few producers; a longer answer is not read.
_ANSWER_BYTES_MAX: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Has a Kafka transaction open since the record at `start`."""

    producer_id: int
    producer_epoch: int
    start: int


class NoAnswer(Exception):
    """Nobody can say, or nobody did."""


def holder(
    address: tuple[str, int], log: tuple[str, int], options: Mapping[str, str]
) -> OpenProducer | None:
    """Whose open Kafka transaction is the oldest in this log; None: nobody's, or no answer.

    `address`: of the partition's leader. `options`: librdkafka's, for the way there.
    """
    try:
        with closing(_connected(address, options)) as connection:
            connection.sendall(request(log))
            producers = parse(_answer(connection))
    except (OSError, NoAnswer, struct.error, IndexError, UnicodeDecodeError):
        return None
    return min(producers, key=lambda producer: producer.start, default=None)


def _connected(address: tuple[str, int], options: Mapping[str, str]) -> socket.socket:
    protocol = options.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl"):
        raise NoAnswer(f"{protocol} is not spoken here")
    plain = socket.create_connection(address, _ANSWER_S)
    if protocol == "plaintext":
        return plain
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem")
        )
        context.check_hostname = options.get("ssl.endpoint.identification.algorithm") != "none"
        certificate = options.get("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(
                certificate, options.get("ssl.key.location"), options.get("ssl.key.password")
            )
        return context.wrap_socket(plain, server_hostname=address[0])
    except BaseException:
        plain.close()
        raise


def request(log: tuple[str, int]) -> bytes:
    """The whole frame."""
    topic, partition = log[0].encode(), log[1]
    header = struct.pack(">hhih", _DESCRIBE_PRODUCERS, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID
    # No tags; one topic with one partition (arrays and texts are their length + 1); no tags.
    body = b"\x00\x02" + _varint(len(topic) + 1) + topic + b"\x02"
    frame = header + body + struct.pack(">i", partition) + b"\x00\x00"
    return struct.pack(">i", len(frame)) + frame


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def _answer(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        (size_bytes,) = struct.unpack(">i", stream.read(4))
        if not 0 < size_bytes <= _ANSWER_BYTES_MAX:
            raise NoAnswer(f"an answer of {size_bytes} bytes")
        return stream.read(size_bytes)


def parse(content: bytes) -> list[OpenProducer]:
    """Of one answer, its length left out. Raises NoAnswer, struct.error, IndexError."""
    cursor = Cursor(content)
    cursor.take(">i")  # correlation id
    cursor.tags()
    cursor.take(">i")  # throttle time
    found: list[OpenProducer] = []
    for _ in range(cursor.varint() - 1):
        cursor.text()
        for _ in range(cursor.varint() - 1):
            cursor.take(">i")
            code = cursor.take(">h")
            cursor.text()
            for _ in range(cursor.varint() - 1):
                producer_id, epoch = cursor.take(">q"), cursor.take(">i")
                cursor.take(">i")  # last sequence
                cursor.take(">q")  # last time
                cursor.take(">i")  # coordinator's epoch
                start = cursor.take(">q")
                cursor.tags()
                if start >= 0:
                    found.append(OpenProducer(producer_id, epoch, start))
            cursor.tags()
            if code:
                raise NoAnswer(f"the broker answered with error {code}")
        cursor.tags()
    return found


class Cursor:
    """Reads the compact forms of Kafka's protocol."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, layout: str) -> int:
        """A fixed-width number."""
        (value,) = struct.unpack_from(layout, self._content, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def varint(self) -> int:
        """An unsigned number of seven bits a byte."""
        value = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        """A compact string: length + 1, then UTF-8; 0 for none."""
        length = max(0, self.varint() - 1)
        self._at += length
        return self._content[self._at - length : self._at].decode()

    def tags(self) -> None:
        """Tagged fields, passed over."""
        for _ in range(self.varint()):
            self.varint()
            self._at += self.varint()
