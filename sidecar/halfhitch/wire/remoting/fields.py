"""Reading the named fields of a request: what must be there, numbers, yes and no.

Every failure is a RemotingError that names the field.
"""

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

_DIGITS_MAX = 19


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
