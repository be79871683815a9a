"""Rules for `tracing.endpoint`; as those in rules.py."""

import re
from ipaddress import IPv6Address
from typing import Final

from halfhitch.config.settings import Settings

_URL: Final = re.compile(
    r"https?://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(/[!-~]*)?"
)
_PORT_MAX: Final = 65_535
#: Between two dots, as names in DNS have it.
_LABEL_CHARS_MAX: Final = 63


def traces_can_be_told(settings: Settings) -> str | None:
    """The owner tells them with its stories."""
    endpoint = settings.tracing.endpoint
    if endpoint is None:
        return None
    url = _URL.fullmatch(endpoint)
    if url is None or not _is_host(url["host"]):
        return f"tracing.endpoint is no URL: {endpoint[:100]!r}; such as http://127.0.0.1:4318."
    if not 1 <= int(url["port"] or "80") <= _PORT_MAX:
        return f"tracing.endpoint has port {url['port']}: a port is 1 to {_PORT_MAX}."
    if not settings.audit.enabled:
        return "tracing.endpoint needs audit.enabled: set that to true, or unset tracing.endpoint."
    return None


def _is_host(name: str) -> bool:
    """Python's client fails on an empty label, with an error that is no OSError."""
    if name.startswith("["):
        try:
            return bool(IPv6Address(name[1:-1]))
        except ValueError:
            return False
    labels = name.removesuffix(".").split(".")
    return all(0 < len(label) <= _LABEL_CHARS_MAX for label in labels)
