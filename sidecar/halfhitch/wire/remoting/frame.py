"""Frames: the stream cut into requests, and answers and requests of ours made bytes.

A frame is a length, a header in one of two forms (JSON, or the binary one called ROCKETMQ) and a
body. Limits are checked before anything is kept: a length that is too large is refused when its
four bytes are here, and never more is held than has arrived. The named fields of a binary header
stay bytes until somebody asks for them: fields that do not parse are the fault of one request, not
of the stream.

Nothing here knows what a code means.
"""

from struct import Struct
from typing import Final

import msgspec

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import FrameError
from halfhitch.wire.remoting.fields import write_fields
from halfhitch.wire.remoting.requests import Form, Frame, JsonHeader

#: Of everything after the length field, as RocketMQ's own servers have it.
FRAME_BYTES_MAX: Final = 16_777_216
#: Properties may have 32,767 bytes, six times that when JSON escapes them, and there is the rest.
HEADER_BYTES_MAX: Final = 262_144
#: The first byte of a TLS handshake record. As the first byte of a frame it would be a length far
#: beyond the limit, so one look tells the two apart.
TLS_FIRST_BYTE: Final = 0x16


_BINARY: Final = Form.BINARY
_JSON: Final = Form.JSON
_LENGTH: Final = Struct(">i")
#: code, language, version, opaque, flag, remark length.
_FIXED: Final = Struct(">hbhiii")
#: Of a binary header without remark and fields.
_EMPTY_HEADER_BYTES: Final = _FIXED.size + _LENGTH.size
_INT32_MAX: Final = 2**31 - 1
_JSON_DECODER: Final = msgspec.json.Decoder(JsonHeader)
_JSON_ENCODER: Final = msgspec.json.Encoder()
_LANGUAGE_NUMBERS: Final = {name: number for number, name in enumerate(codes.LANGUAGES)}


def starts_tls(data: bytes) -> bool:
    """Whether the first bytes of a connection open a TLS handshake instead of a frame."""
    return data[:1] == b"\x16"


class Frames:
    """One direction of one connection: bytes in as they arrive, whole frames out.

    The same bytes give the same frames however they were cut. When the stream turns out to be
    broken, the frames before that are still given; `broken` says why, and so does the next `feed`.
    """

    __slots__ = ("_frame_bytes_max", "_held", "_needed_bytes", "broken")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._held = bytearray()  # bounded: of a length that was checked
        self._needed_bytes = 0
        self.broken: FrameError | None = None

    @property
    def held_bytes(self) -> int:
        """How much of an unfinished frame is here."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order. FrameError: close the connection."""
        if self.broken is not None:
            raise self.broken
        if self._held:
            self._held += data
            if len(self._held) < self._needed_bytes:
                return []
            data = bytes(self._held)
            self._held = bytearray()  # bounded: of a length that was checked
        frames: list[Frame] = []
        try:
            self._cut(data, frames)
        except FrameError as error:
            self.broken = error
            if not frames:
                raise
        return frames

    def _cut(self, data: bytes, frames: list[Frame]) -> None:
        at, size = 0, len(data)
        while True:
            self._needed_bytes = _LENGTH.size
            if size - at < self._needed_bytes:
                break
            (length,) = _LENGTH.unpack_from(data, at)
            if not 4 <= length <= self._frame_bytes_max:
                raise FrameError(
                    f"a frame of {length} bytes: 4 to {self._frame_bytes_max} are allowed; "
                    "is this a RocketMQ client?"
                )
            self._needed_bytes += length
            if size - at < self._needed_bytes:
                break
            end = at + self._needed_bytes
            frames.append(_frame(data[at + _LENGTH.size : end]))
            at = end
        if at < size:
            self._held += data[at:]


def _frame(content: bytes) -> Frame:
    """Any frame, without its length field."""
    form = content[0]
    header_bytes = int.from_bytes(content[1:4], "big")
    if header_bytes > min(HEADER_BYTES_MAX, len(content) - 4):
        raise FrameError(
            f"a header of {header_bytes} bytes in a frame of {len(content)}: "
            f"it must fit, and {HEADER_BYTES_MAX} are allowed"
        )
    header, body = content[4 : 4 + header_bytes], content[4 + header_bytes :]
    if form == _JSON:
        return _json_frame(header, body)
    if form == _BINARY:
        return _binary_frame(header, body)
    raise FrameError(f"a header of form {form}: 0 (JSON) and 1 (ROCKETMQ) are known")


def _binary_frame(header: bytes, body: bytes) -> Frame:
    if len(header) < _EMPTY_HEADER_BYTES:
        raise FrameError(f"a binary header of {len(header)} bytes: it ends before its fixed part")
    code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
    fields_at = _FIXED.size + remark_bytes + 4
    if remark_bytes < 0 or fields_at > len(header):
        raise FrameError(f"a remark of {remark_bytes} bytes in a header of {len(header)}")
    try:
        remark = header[_FIXED.size : fields_at - 4].decode()
    except UnicodeDecodeError:
        raise FrameError("a remark that is not UTF-8") from None
    (fields_bytes,) = _LENGTH.unpack_from(header, fields_at - 4)
    if fields_bytes != len(header) - fields_at:
        raise FrameError(
            f"fields of {fields_bytes} bytes where the header has {len(header) - fields_at} left"
        )
    return Frame(
        code, opaque, flag, language, version, remark or None, body, _BINARY, header[fields_at:]
    )


def _json_frame(header: bytes, body: bytes) -> Frame:
    try:
        read = _JSON_DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a JSON header that does not parse: {error}") from None
    language = read.language
    if not isinstance(language, int):
        language = _LANGUAGE_NUMBERS.get(language or "", codes.ANSWERED_LANGUAGE)
    fields: dict[str, str] = {}
    for name, value in (read.extFields or {}).items():
        if isinstance(value, str):
            fields[name] = value
        elif value is not None:  # some clients write numbers as numbers
            fields[name] = msgspec.json.encode(value).decode()
    for number in (read.code, read.opaque, read.flag, read.version):
        if not -_INT32_MAX - 1 <= number <= _INT32_MAX:
            raise FrameError(f"a JSON header with the number {number}: 32 bits are allowed")
    return Frame(
        read.code, read.opaque, read.flag, language, read.version, read.remark or None, body, _JSON,
        b"", fields,
    )  # fmt: skip


def request(
    code: int,
    opaque: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
    remark: str | None = None,
    form: Form = Form.JSON,
) -> Frame:
    """A request of ours, to be encoded."""
    return Frame(
        code, opaque, flag, codes.ANSWERED_LANGUAGE, codes.ANSWERED_VERSION, remark, body, form,
        b"", {} if fields is None else fields,
    )  # fmt: skip


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if frame.form is _BINARY:
        return _encode_binary(frame)
    header = {
        "code": frame.code,
        "language": language_name(frame.language),
        "version": frame.version,
        "opaque": frame.opaque,
        "flag": frame.flag,
        "extFields": frame.fields,
        "serializeTypeCurrentRPC": "JSON",
    }
    if frame.remark:
        header["remark"] = frame.remark
    content = _JSON_ENCODER.encode(header)
    size = len(content)
    return b"".join((_SIZES.pack(4 + size + len(frame.body), size), content, frame.body))


_SIZES: Final = Struct(">ii")


def _encode_binary(frame: Frame) -> bytes:
    known = frame.known_fields
    fields = frame.raw_fields if known is None else write_fields(known)
    remark = (frame.remark or "").encode()
    size = _EMPTY_HEADER_BYTES + len(remark) + len(fields)
    parts = (
        _SIZES.pack(4 + size + len(frame.body), 1 << 24 | size),
        _FIXED.pack(
            frame.code, frame.language, frame.version, frame.opaque, frame.flag, len(remark)
        ),
        remark,
        _LENGTH.pack(len(fields)),
        fields,
        frame.body,
    )
    return b"".join(parts)


def language_name(number: int) -> str:
    """As the JSON form spells it; OTHER for one that is not known here."""
    if 0 <= number < len(codes.LANGUAGES):
        return codes.LANGUAGES[number]
    return codes.LANGUAGES[codes.ANSWERED_LANGUAGE]


def reply(
    asked: Frame,
    code: int,
    remark: str | None = None,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """The bytes that answer a request: its opaque, its form."""
    return encode(
        request(
            code,
            asked.opaque,
            fields,
            body,
            flag=codes.RESPONSE_FLAG,
            remark=remark,
            form=asked.form,
        )
    )
