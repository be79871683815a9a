"""What messages say, in JSON: text where it is UTF-8, base64 otherwise, null where nothing was."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any


def shown_content(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> dict[str, Any]:
    """As in a prepare: `key` or `key_base64`, `value` or `value_base64`, headers as pairs."""
    shown: dict[str, Any] = {}
    for name, raw in (("key", key), ("value", value)):
        text, encoded = _split(raw)
        if encoded is None:
            shown[name] = text
        else:
            shown[f"{name}_base64"] = encoded
    shown["headers"] = [[name, _header(raw)] for name, raw in headers]
    return shown


def _header(raw: bytes | None) -> str | dict[str, str] | None:
    text, encoded = _split(raw)
    return text if encoded is None else {"base64": encoded}


def _split(raw: bytes | None) -> tuple[str | None, str | None]:
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(raw).decode()
