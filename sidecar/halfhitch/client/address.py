"""Where the sidecar listens: `http://host:port`, `https://host:port` or `unix:/path/to/socket`.

A wrong address is refused when the producer is made, not at the first message.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

from halfhitch.client.given import is_text
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from halfhitch.client.tls import ClientTls, Trust

DEFAULT_ADDRESS = "http://127.0.0.1:8340"
ADDRESS_VARIABLE = "HALFHITCH_ADDRESS"
IN_FRONT_VARIABLE = "HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT"

_TRUTHS = {"": False, "false": False, "true": True}


class Address(NamedTuple):
    """A parsed address: either `path` (unix socket) or `host` and `port` are set."""

    text: str
    host: str
    port: int
    path: str | None
    host_header: str
    #: Of `https://`: what its connections are encrypted with.
    trust: "Trust | None" = None


def find_address(given: str | None, tls: "ClientTls | None" = None) -> Address:
    """The given address, else the environment's, else the sidecar's default port on loopback."""
    if given is not None and not is_text(given):
        raise ConfigurationError(
            f"address is {given!r}, which is no text: write it as {DEFAULT_ADDRESS!r}"
        )
    return parse_address(given or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS, tls)


def require_secrecy(
    address: Address, token: str | None, *, encrypted_in_front: bool | None
) -> None:
    """Raises ConfigurationError where others could read the token on its way.

    `encrypted_in_front` says that something in front of the sidecar encrypts; None leaves that to
    the environment. A name counts as another machine, for what it leads to may change.
    """
    if token is None or address.path is not None or address.trust is not None:
        return
    if encrypted_in_front is None:
        encrypted_in_front = _encrypted_in_front_of(os.environ.get(IN_FRONT_VARIABLE, ""))
    if encrypted_in_front or _is_loopback(address.host):
        return
    raise ConfigurationError(
        f"address {address.text!r}: other machines reach it, and what travels there is not "
        "encrypted: the token and messages could be read on the way. Call it with https://; or, "
        "if a mesh or a proxy in front of it encrypts, say so with encrypted_in_front=True or "
        f"{IN_FRONT_VARIABLE}=true"
    )


def _encrypted_in_front_of(text: str) -> bool:
    said = text.strip().lower()
    if said not in _TRUTHS:
        raise ConfigurationError(f"{IN_FRONT_VARIABLE} must be true or false, not {text[:40]!r}")
    return _TRUTHS[said]


def _is_loopback(host: str) -> bool:
    if host.lower() in ("localhost", "127.0.0.1", "::1"):
        return True
    from ipaddress import ip_address  # the usual addresses need it not, and imports take time

    try:
        found = ip_address(host)
    except ValueError:
        return False
    # Python 3.13 looks into ::ffff:127.0.0.1, earlier ones do not.
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def parse_address(text: str, tls: "ClientTls | None" = None) -> Address:
    """Raises ConfigurationError with a good example. Without `tls` the environment counts."""
    is_https = text.startswith("https://")
    if tls is not None and not is_https:
        raise _refused(text, "tls=... is given, and is for https:// alone")
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")  # unix:///run/x.sock is usual too
        if not path or "\0" in path:
            raise _refused(text, "the path of the socket is missing")
        return Address(text, "", 0, path, "localhost")
    if not text.startswith("http://") and not is_https:
        raise _refused(text, "it must begin with http://, https:// or unix:")
    authority = text.partition("://")[2].removesuffix("/")
    host, colon, port_text = authority.rpartition(":")
    if not colon or not (port_text.isascii() and port_text.isdecimal()):
        raise _refused(text, "the port is missing or is not a number")
    if not 0 < int(port_text) < 65536:
        raise _refused(text, "the port must be between 1 and 65535")
    bare_host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    bracketed = bare_host is not host
    if not bare_host.isascii() or not bare_host.isprintable() or set(bare_host) & set(" /?#@[]"):
        raise _refused(text, "the host name has characters that cannot be in one")
    if not bare_host or (":" in bare_host and not bracketed):
        raise _refused(text, "the host name is missing, or is an IPv6 address without [brackets]")
    trust = _trust(bare_host, tls) if is_https else None
    return Address(text, bare_host, int(port_text), None, authority, trust)


def _trust(host: str, tls: "ClientTls | None") -> "Trust":
    from halfhitch.client.tls import ClientTls, Trust  # others need no ssl

    return Trust(tls or ClientTls.of_environment(os.environ), host)


def _refused(text: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"address {text!r}: {reason}. Good values are {DEFAULT_ADDRESS} and"
        " unix:/run/halfhitch/data.sock (argument address=..., or the variable"
        f" {ADDRESS_VARIABLE})"
    )
