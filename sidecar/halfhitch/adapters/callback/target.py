"""Where callbacks may go: the rules for `checks.url` and for every address behind its name.

Owns `Target`, the parsed setting, and the verdict on addresses. A sidecar that posts to whatever
a name leads to could be turned against its own network (server-side request forgery), and the
worst prize there is a cloud's metadata service, which hands out credentials. So:

- only http and https, and no user, fragment or blank in the URL;
- an address must be loopback or in a network that was configured, and each address the name leads
  to must be: one stray among them is a sign of trouble, not a reason to try the next;
- link-local and metadata addresses never, whatever is configured; an IPv4 address that hides in an
  IPv6 one counts as what it is.

No I/O here: resolving is client's.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from halfhitch.errors import ConfigurationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SCHEMES: Final = {"http": 80, "https": 443}
_PRINTABLE: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_PORT_MAX: Final = 65_535

#: Addresses under which clouds serve metadata or credentials and which are not link-local.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
#: Never a service: "this" network, benchmarks of nobody, reserved, broadcast.
_NEVER: Final = tuple(
    ipaddress.ip_network(text) for text in ("0.0.0.0/8", "240.0.0.0/4", "::/128", "fec0::/10")
)
#: Translated addresses: NAT64's known prefix, its local ones, SIIT's.
_LOCAL_NAT64: Final = ipaddress.ip_network("64:ff9b:1::/48")
_V4_AT_ITS_END: Final = (
    ipaddress.ip_network("64:ff9b::/96"),
    _LOCAL_NAT64,
    ipaddress.ip_network("::ffff:0:0:0/96"),
)
#: The half before the IPv4 address in an interface id of ISATAP, without its universal bit.
_ISATAP: Final = 0x0000_5EFE
_V4_COMPATIBLE: Final = ipaddress.ip_network("::/96")


@dataclass(frozen=True, slots=True)
class Target:
    """An address that was found in order."""

    is_tls: bool
    host: str
    port: int
    path: str  # with the query, as it travels
    host_header: str
    networks: tuple[Network, ...]

    @classmethod
    def parse(cls, url: str, networks: Sequence[str] = ()) -> "Target":
        """Raises ConfigurationError."""
        if not _PRINTABLE.fullmatch(url):
            raise ConfigurationError(
                "checks.url has blanks or characters beyond ASCII: percent-encode them, and write "
                "an international host name in its xn-- form."
            )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"checks.url is no URL ({error}): {_EXAMPLE}") from None
        host = parts.hostname or ""
        if parts.scheme not in _SCHEMES or not host:
            raise ConfigurationError(f"checks.url must begin with http:// or https://: {_EXAMPLE}")
        if "@" in parts.netloc or "#" in url:
            raise ConfigurationError(
                "checks.url has a user, a password or a fragment in it: leave them out; a secret "
                "belongs into checks.url_token."
            )
        literal = _literal(host)
        if (literal is None and not _HOST.fullmatch(host)) or "%" in host:
            raise ConfigurationError(f"checks.url has no proper host name: {_EXAMPLE}")
        if port is not None and not 0 < port <= _PORT_MAX:
            raise ConfigurationError(f"checks.url has port {port}: use one from 1 to {_PORT_MAX}.")
        default_port = _SCHEMES[parts.scheme]
        written = f"[{host}]" if ":" in host else host
        target = cls(
            is_tls=parts.scheme == "https",
            host=host,
            port=port or default_port,
            path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
            host_header=written if port in (None, default_port) else f"{written}:{port}",
            networks=tuple(_network(text) for text in networks),
        )
        if literal is not None:
            trouble = target.trouble_with(host)
            if trouble is not None:
                raise ConfigurationError(f"checks.url leads to {host}: {trouble}.")
        return target

    @property
    def name(self) -> str:
        """For people. Without the query, which may hold a secret."""
        scheme = "https" if self.is_tls else "http"
        return f"{scheme}://{self.host_header}{self.path.partition('?')[0]}"

    def trouble_with(self, text: str) -> str | None:
        """Why this address must not be connected to; None if it may."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return "this is no address"
        for candidate in (address, *_hidden(address)):
            if _is_never_allowed(candidate):
                return "link-local, metadata and reserved addresses are never called"
        plain = getattr(address, "ipv4_mapped", None) or address
        if plain.is_loopback or any(plain in network for network in self.networks):
            return None
        return (
            "it is neither loopback nor in checks.url_networks; add its network there, for "
            f"instance {plain}/{plain.max_prefixlen}, if the sidecar is meant to call it"
        )


_EXAMPLE: Final = "write for example http://127.0.0.1:8080/halfhitch/checks."


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigurationError(
            f"checks.url_networks has {text!r}, which is no network ({error}): write for example "
            "10.0.0.0/8 or 10.1.2.3/32."
        ) from None
    if network.is_link_local or network.is_multicast:
        raise ConfigurationError(
            f"checks.url_networks has {text}, whose addresses are never called: leave it out."
        )
    return network


def _is_never_allowed(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address in _METADATA
        or any(address in network for network in _NEVER)
    )


def _hidden(address: Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that packets to this IPv6 address may end up at."""
    if address.version == 4:
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    number = int(address)
    is_compatible = address in _V4_COMPATIBLE and not address.is_loopback
    is_isatap = number >> 32 & 0xFDFF_FFFF == _ISATAP
    if is_compatible or is_isatap or any(address in network for network in _V4_AT_ITS_END):
        found.append(ipaddress.IPv4Address(number & 0xFFFF_FFFF))
    if address in _LOCAL_NAT64:  # any part of it may be its prefix (RFC 6052)
        found += [ipaddress.IPv4Address(_embedded(number, length)) for length in (48, 56, 64)]
    return [candidate for candidate in found if candidate is not None]


def _embedded(number: int, prefix_length: int) -> int:
    """The 32 bits behind the prefix, without bits 64 to 71, which are always left out."""
    octets = number.to_bytes(16, "big")
    rest = octets[prefix_length // 8 :] if prefix_length == 64 else b""
    rest = rest[1:] or octets[prefix_length // 8 : 8] + octets[9:]
    return int.from_bytes(rest[:4], "big")
