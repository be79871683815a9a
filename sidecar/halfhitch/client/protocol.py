"""HTTP/1.1 answers out of bytes, without I/O: whole or byte by byte, the result is the same.

Strict on purpose: a connection on which client and server disagree where an answer ends would give
one transaction the answer of another. Anything doubtful raises `ProtocolError`, and the shell then
drops the connection. One parser reads one answer.
"""

from collections.abc import Callable
from typing import NamedTuple

#: A handle of 10,000 messages takes 110 kB of header.
HEAD_BYTES_MAX = 256 * 1024
#: Far above any answer of the data door; a stream of garbage must not fill the memory.
BODY_BYTES_MAX = 16 * 1024 * 1024
CHUNK_LINE_BYTES_MAX = 1024

# For `strip`: what remains of a good text is nothing.
_IN_FIELD_NAME = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&'*+-.^_`|~"
_HEX_DIGITS = b"0123456789abcdefABCDEF"


class ProtocolError(Exception):
    """What was received is not an HTTP/1.1 answer, or is cut off."""


class Response(NamedTuple):
    """A complete answer. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    #: The connection may carry another request.
    reusable: bool


class ResponseParser:
    """Feed it what arrives until it gives a `Response`."""

    __slots__ = (
        "_body",
        "_body_left",
        "_buffer",
        "_headers",
        "_keep_alive",
        "_read_part",
        "_status",
        "started",
    )

    def __init__(self) -> None:
        self.started = False  # any byte has arrived
        self._buffer = bytearray()
        self._read_part: Callable[[], bool] | None = self._read_head
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keep_alive = False
        self._body = b""
        self._body_left = 0

    @property
    def is_http(self) -> bool:
        """What has arrived began as an HTTP answer does."""
        return self._status != 0

    def feed(self, data: bytes) -> Response | None:
        """None: more is needed. Raises ProtocolError."""
        self.started = True
        self._buffer += data
        while self._read_part is not None:
            if not self._read_part():
                return None
        return self._response()

    def end(self) -> Response:
        """The server has closed the connection. Raises ProtocolError if that cuts the answer."""
        if self._read_part != self._read_until_end:
            raise ProtocolError(
                "the connection was closed in the middle of the answer"
                if self.started
                else "the connection was closed before the answer"
            )
        self._body = bytes(self._buffer)
        self._buffer.clear()
        return self._response()

    def _response(self) -> Response:
        # More bytes than the answer has: nothing was asked, so whose answer would they be?
        reusable = self._keep_alive and not self._buffer
        return Response(self._status, self._headers, self._body, reusable)

    def _read_head(self) -> bool:
        buffer = self._buffer
        head_length = buffer.find(b"\r\n\r\n")
        if head_length < 0:
            if len(buffer) > HEAD_BYTES_MAX:
                raise ProtocolError(f"a head of more than {HEAD_BYTES_MAX} bytes")
            if not buffer.startswith(b"HTTP/1."[: len(buffer)]):
                raise ProtocolError("it does not begin as HTTP/1.1 does")
            return False
        lines = buffer[:head_length].decode("latin-1").split("\r\n")
        del buffer[: head_length + 4]
        self._status, version = read_status_line(lines[0])
        self._headers = read_fields(lines)
        if self._status < 200:
            if self._status == 101:
                raise ProtocolError("it switches to another protocol")
            return True  # interim: the real answer's head follows
        self._keep_alive = (
            version == "HTTP/1.1" and "close" not in self._headers.get("connection", "").lower()
        )
        self._choose_body()
        return True

    def _choose_body(self) -> None:
        """RFC 9112 section 6.3, as far as it concerns answers to GET and POST."""
        length = self._headers.get("content-length")
        coding = self._headers.get("transfer-encoding")
        if self._status in (204, 304):
            self._read_part = None
        elif coding is not None:
            if length is not None or coding.lower() != "chunked":
                raise ProtocolError(f"transfer coding {coding[:40]!r}, content length {length!r}")
            self._read_part = self._read_chunk_size
        elif length is not None:
            if not (length.isascii() and length.isdecimal()) or len(length) > 18:
                raise ProtocolError(f"content length {length[:40]!r}")
            self._want_body(int(length))
            self._read_part = self._read_counted
        else:
            self._keep_alive = False
            self._read_part = self._read_until_end

    def _want_body(self, length: int) -> None:
        if len(self._body) + length > BODY_BYTES_MAX:
            raise ProtocolError(f"a body of more than {BODY_BYTES_MAX} bytes")
        self._body_left = length

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def _read_counted(self) -> bool:
        if len(self._buffer) < self._body_left:
            return False
        self._body = self._take(self._body_left)
        self._read_part = None
        return True

    def _read_until_end(self) -> bool:
        if len(self._buffer) > BODY_BYTES_MAX:
            raise ProtocolError(f"a body of more than {BODY_BYTES_MAX} bytes")
        return False

    def _read_line(self) -> bytes | None:
        length = self._buffer.find(b"\r\n")
        if length > CHUNK_LINE_BYTES_MAX or (
            length < 0 and len(self._buffer) > CHUNK_LINE_BYTES_MAX
        ):
            raise ProtocolError("an endless line in a chunked body")
        return None if length < 0 else self._take(length + 2)[:-2]

    def _read_chunk_size(self) -> bool:
        line = self._read_line()
        if line is None:
            return False
        self._want_body(read_chunk_size(line))
        self._read_part = self._read_chunk if self._body_left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        if len(self._buffer) < self._body_left + 2:
            return False
        self._body += self._take(self._body_left)
        if self._take(2) != b"\r\n":
            raise ProtocolError("a chunk is longer than it says")
        self._read_part = self._read_chunk_size
        return True

    def _read_trailer(self) -> bool:
        line = self._read_line()
        if line is None:
            return False
        if not line:
            self._read_part = None
        return True


def read_status_line(line: str) -> tuple[int, str]:
    """Status and version. Raises ProtocolError."""
    version, _, rest = line.partition(" ")
    status, _, _ = rest.partition(" ")
    if (
        version not in ("HTTP/1.1", "HTTP/1.0")
        or len(status) != 3
        or not (status.isascii() and status.isdecimal())
        or not "100" <= status <= "599"
    ):
        raise ProtocolError(f"status line {line[:80]!r}")
    return int(status), version


def read_chunk_size(line: bytes) -> int:
    """Raises ProtocolError."""
    size = line.partition(b";")[0].rstrip(b" \t")
    if not 1 <= len(size) <= 8 or size.strip(_HEX_DIGITS):
        raise ProtocolError(f"chunk size {line[:40]!r}")
    return int(size, 16)


def read_fields(lines: list[str]) -> dict[str, str]:
    """The header lines of a head whose first line is the status line. Raises ProtocolError."""
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if (
            not colon
            or not name
            or name.strip(_IN_FIELD_NAME)
            or "\0" in value
            or "\r" in value
            or "\n" in value
        ):
            raise ProtocolError(f"header line {line[:80]!r}")
        name = name.lower()
        value = value.strip(" \t")
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise ProtocolError("two content lengths")
            if name != "content-length":
                value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers
