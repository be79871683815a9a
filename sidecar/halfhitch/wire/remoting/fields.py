"""The named fields of a request: as bytes and back; what must be there, numbers, yes and no.

Every failure is a RemotingError that names the field.
"""

from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

_DIGITS_MAX: Final = 19
_LENGTH: Final = Struct(">i")
_KEY_BYTES_MAX: Final = 2**15 - 1


def text(fields: dict[str, str], name: str) -> str:
    """A field that must be there and not empty."""
    value = fields.get(name)
    if not value:
        raise invalid(f"the field {name} is missing")
    return value


def optional_text(fields: dict[str, str], name: str) -> str | None:
    """A field that may be missing; an empty one counts as that, for the wire cannot tell."""
    return fields.get(name) or None


def int32(fields: dict[str, str], name: str, default: int | None = None) -> int:
    """A whole number of 32 bits."""
    return _number(fields, name, default, 31)


def int64(fields: dict[str, str], name: str, default: int | None = None) -> int:
    """A whole number of 64 bits."""
    return _number(fields, name, default, 63)


def yes(fields: dict[str, str], name: str) -> bool:
    """true in any case is yes; everything else, and nothing, is no. As Java reads it."""
    return fields.get(name, "").lower() == "true"


def _number(fields: dict[str, str], name: str, default: int | None, bits: int) -> int:
    value = fields.get(name)
    if not value:
        if default is None:
            raise invalid(f"the field {name} is missing")
        return default
    digits = value[1:] if value[0] in "+-" else value
    # int() alone would take spaces, underscores and the digits of other scripts.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        raise invalid(f"the field {name} is no whole number: {value[:40]!r}")
    number = int(value)
    if not -(1 << bits) <= number < 1 << bits:
        raise invalid(f"the field {name} does not fit {bits + 1} bits: {value}")
    return number


def invalid(remark: str) -> RemotingError:
    """For a request that no retry makes better."""
    return RemotingError(codes.INVALID_PARAMETER, remark)


def read_fields(raw: bytes) -> dict[str, str]:
    """The named fields of a binary header. RemotingError for what does not parse."""
    fields: dict[str, str] = {}
    at, end = 0, len(raw)
    while at < end:
        key_at = at + 2
        value_size_at = key_at + int.from_bytes(raw[at:key_at], "big")
        value_at = value_size_at + 4
        if value_at > end:
            raise _broken_fields(at)
        (value_bytes,) = _LENGTH.unpack_from(raw, value_size_at)
        at = value_at + value_bytes
        if value_bytes < 0 or at > end:
            raise _broken_fields(key_at)
        try:
            fields[raw[key_at:value_size_at].decode()] = raw[value_at:at].decode()
        except UnicodeDecodeError:
            raise _broken_fields(key_at) from None
    return fields


def _broken_fields(at: int) -> RemotingError:
    return RemotingError(
        codes.INVALID_PARAMETER, f"the header fields do not parse from byte {at} on"
    )


def write_fields(fields: dict[str, str]) -> bytes:
    """Named fields as a binary header carries them."""
    parts: list[bytes] = []
    for name, value in fields.items():
        key, content = name.encode(), value.encode()
        if len(key) > _KEY_BYTES_MAX:
            raise ValueError(f"a field name of {len(key)} bytes: {_KEY_BYTES_MAX} fit")
        parts += (len(key).to_bytes(2, "big"), key, _LENGTH.pack(len(content)), content)
    return b"".join(parts)
